"""Names of the things a query is made of."""

from typing import NewType

#: Sorts by creation time; unique across every client of one deployment.
QueryId = NewType("QueryId", str)
#: Position of a stage in its plan, from 0; producers come before their consumers.
StageId = NewType("StageId", int)
#: One physical worker: a function invocation on AWS, a run of a worker process locally.
WorkerId = NewType("WorkerId", str)
#: Drawn in the claiming process at each claim: the same launch delivered twice is two claimants.
Nonce = NewType("Nonce", str)
