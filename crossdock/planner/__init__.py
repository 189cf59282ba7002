"""From SQL to a stage plan: bind, decode, distribute, cut.

``planning.plan_query`` is the way through; the package itself imports nothing, because workers read
plans and must start fast.
"""
