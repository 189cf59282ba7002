"""What to look at, and what should wake somebody. ``docs/operations.md`` says what to do then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

_MINUTE = Duration.minutes(1)
#: The coordinator answers wake-ups within a second; a minute means that it does not run.
CONTROL_AGE_SECONDS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a deployment is made of, as far as it is watched."""

    name: str
    functions: Mapping[str, lambda_.IFunction]
    workers: frozenset[str]  # names among ``functions``; their throttles are backed off from
    control: sqs.IQueue
    dead_letters: Mapping[str, sqs.IQueue]
    table: dynamodb.ITable
    api: gateway.HttpApi


class Monitoring(Construct):
    def __init__(
        self, scope: Construct, id: str, *, watched: Watched, topic_arn: str, dashboard: bool
    ) -> None:
        super().__init__(scope, id)
        self._watched = watched
        self.alarms = [*self._function_alarms(), *self._queue_alarms(), self._api_alarm()]
        if topic_arn:
            action = actions.SnsAction(sns.Topic.from_topic_arn(self, "Topic", topic_arn))
            for alarm in self.alarms:
                alarm.add_alarm_action(action)
        if dashboard:
            self._dashboard()

    def _function_alarms(self) -> list[cloudwatch.Alarm]:
        alarms = []
        for name, function in self._watched.functions.items():
            errors = function.metric_errors(period=_MINUTE, statistic="Sum")
            throttles = function.metric_throttles(period=_MINUTE, statistic="Sum")
            if name in self._watched.workers:
                # An error costs one attempt of one task, and the coordinator backs off from
                # throttles: only a burst of errors, or throttling that lasts, is a fault.
                alarms.append(self._alarm(f"{name}-errors", errors, 10, minutes=5, of=1))
                alarms.append(self._alarm(f"{name}-throttles", throttles, 1, minutes=15, of=15))
            else:
                alarms.append(self._alarm(f"{name}-errors", errors, 1, minutes=5, of=1))
                alarms.append(self._alarm(f"{name}-throttles", throttles, 1, minutes=5, of=3))
        return alarms

    def _queue_alarms(self) -> list[cloudwatch.Alarm]:
        age = self._watched.control.metric_approximate_age_of_oldest_message(period=_MINUTE)
        alarms = [self._alarm("control-age", age, CONTROL_AGE_SECONDS, minutes=3, of=3)]
        for name, queue in self._watched.dead_letters.items():
            depth = queue.metric_approximate_number_of_messages_visible(period=_MINUTE)
            alarms.append(self._alarm(f"{name}-dead-letters", depth, 1, minutes=1, of=1))
        return alarms

    def _api_alarm(self) -> cloudwatch.Alarm:
        faults = self._watched.api.metric_server_error(period=_MINUTE, statistic="Sum")
        return self._alarm("api-5xx", faults, 1, minutes=5, of=2)

    def _alarm(
        self, name: str, metric: cloudwatch.IMetric, threshold: int, *, minutes: int, of: int
    ) -> cloudwatch.Alarm:
        """Raised when ``of`` of the last ``minutes`` reached ``threshold``."""
        return cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._watched.name}-{name}",
            metric=metric,
            threshold=threshold,
            comparison_operator=(cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD),
            evaluation_periods=minutes,
            datapoints_to_alarm=of,
            # Nothing runs between queries, so no data is the usual state.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )

    def _dashboard(self) -> None:
        watched = self._watched
        functions = watched.functions.values()
        rows: Sequence[tuple[str, list[cloudwatch.IMetric]]] = (
            ("Invocations", [each.metric_invocations() for each in functions]),
            ("Concurrency", [each.metric("ConcurrentExecutions", statistic="Maximum")
                             for each in functions]),
            ("Duration, longest", [each.metric_duration(statistic="Maximum")
                                   for each in functions]),
            ("Errors", [each.metric_errors() for each in functions]),
            ("Throttles", [each.metric_throttles() for each in functions]),
            ("Control queue: age (s)", [
                watched.control.metric_approximate_age_of_oldest_message()
            ]),
            ("Dead letters", [queue.metric_approximate_number_of_messages_visible()
                              for queue in watched.dead_letters.values()]),
            ("State table: units", [watched.table.metric_consumed_read_capacity_units(),
                                    watched.table.metric_consumed_write_capacity_units()]),
            ("API", [watched.api.metric_count(), watched.api.metric_client_error(),
                     watched.api.metric_server_error()]),
        )  # fmt: skip
        widgets = [
            cloudwatch.GraphWidget(title=title, left=metrics, width=8) for title, metrics in rows
        ]
        cloudwatch.Dashboard(self, "Dashboard", dashboard_name=watched.name, widgets=[widgets])
