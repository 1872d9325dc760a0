"""What can be set about metrics and health: rows that each server reads from its own file.

Nobody who asks has an account: the port tells names of topics and groups to whoever reaches it. So it listens on this
machine unless told otherwise, with access control too.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from flaremq.errors import InvalidArgumentError
from flaremq.options import AT_START, SECURITY, check_values, option

_TYPES: Final = ("DISABLE", "OTLP_GRPC", "PROM", "LOG")
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_HOST_FORM: Final = "an IPv4 or IPv6 address, not a host name"
_TYPE_FORM: Final = "DISABLE (0) or PROM (2)"
_TYPE_DOC: Final = (
    "PROM serves `/metrics`, `/healthz` and `/readyz`; see [metrics.md](metrics.md). OTLP_GRPC (1) and LOG (3) do not "
    "exist here and are refused: let a collector scrape."
)
_HOST_DOC: Final = "Address to listen at; empty means 127.0.0.1 (in RocketMQ: `brokerIP1`)."
_INSECURE_DOC: Final = (
    "Allow an address for metrics that other machines reach: whoever reaches it reads them, with access control too. "
    "`insecureBindEnable=true` allows it as well."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """Where metrics and health are served, whatever a server's options call it."""

    exporter_type: str
    host: str
    port: int
    label: str
    insecure_bind_enable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """Metrics of a broker."""

    # fmt: off
    metrics_exporter_type: str = option(
        "DISABLE", rocketmq="metricsExporterType", affects="behaviour", fixed=AT_START, form=_TYPE_FORM, doc=_TYPE_DOC)
    metrics_prom_exporter_port: int = option(
        5557, rocketmq="metricsPromExporterPort", affects="behaviour", fixed=AT_START, maximum=65535,
        doc="Port of metrics and health; 0 takes a free one.")
    metrics_prom_exporter_host: str = option(
        "", rocketmq="metricsPromExporterHost", affects="behaviour", fixed=AT_START, form=_HOST_FORM, doc=_HOST_DOC)
    metrics_insecure_bind_enable: bool = option(
        False, flaremq="metricsInsecureBindEnable", affects="behaviour", fixed=SECURITY, doc=_INSECURE_DOC)
    metrics_label: str = option(
        "", rocketmq="metricsLabel", affects="behaviour", fixed=AT_START, form="name:value pairs joined by commas",
        doc="Labels that every sample gets; what is no pair is dropped, as in RocketMQ.")
    metrics_names: str = option(
        "5.5", flaremq="metricsNames", affects="behaviour", fixed=AT_START, choices=("5.5", "5.3", "both"),
        doc="RocketMQ's names with units (5.5), without as its documentation of 5.1 to 5.3 has them (5.3), or both.")
    metrics_otel_cardinality_limit: int = option(
        50_000, rocketmq="metricsOtelCardinalityLimit", affects="behaviour", fixed=AT_START, minimum=2,
        maximum=1_000_000,
        doc="Sets of labels a metric has at most. Counters of further ones are added up in one sample, gauges of "
            "further ones are left out; `flaremq_series_cut` says how many.")
    enable_remoting_metrics: bool = option(
        True, rocketmq="enableRemotingMetrics", affects="behaviour", live=True, doc="Tell `rocketmq_rpc_latency`.")
    enable_message_store_metrics: bool = option(
        True, rocketmq="enableMessageStoreMetrics", affects="behaviour", live=True,
        doc="Tell about store and timers.")
    enable_pop_metrics: bool = option(
        True, rocketmq="enablePopMetrics", affects="behaviour", live=True, doc="Tell about POP.")
    enable_connection_metrics: bool = option(
        True, rocketmq="enableConnectionMetrics", affects="behaviour", live=True,
        doc="Tell about connected producers and consumers.")
    enable_transaction_metrics: bool = option(
        True, rocketmq="enableTransactionMetrics", affects="behaviour", live=True, doc="Tell about transactions.")
    enable_stats_metrics: bool = option(
        True, rocketmq="enableStatsMetrics", affects="behaviour", live=True,
        doc="Tell queues of requests, permission, numbers of topics and groups.")
    enable_request_metrics: bool = option(
        True, rocketmq="enableRequestMetrics", affects="behaviour", live=True,
        doc="Tell messages in and out, and what creating topics and groups took.")
    enable_lag_and_dlq_metrics: bool = option(
        True, rocketmq="enableLagAndDlqMetrics", affects="behaviour", live=True,
        doc="Tell how far groups are behind, and dead letters.")
    estimate_accumulation: bool = option(
        True, rocketmq="estimateAccumulation", affects="behaviour", live=True,
        doc="Count only messages that a group's tags want, up to 5,000 a queue; beyond that, share out by samples. "
            "SQL92 expressions are not evaluated for this: their groups count every message.")
    use_static_subscription: bool = option(
        False, rocketmq="useStaticSubscription", affects="behaviour", live=True,
        doc="Tell lags also of groups that are offline, for the topics in their configured subscriptions.")
    metrics_offline_groups: bool = option(
        False, flaremq="metricsOfflineGroups", affects="behaviour", live=True,
        doc="Tell lags also of groups that are offline, for the topics in which they have offsets: else an alert on "
            "lag falls silent just when nobody consumes.")
    # fmt: on

    def __post_init__(self) -> None:
        check_values(self)
        check_endpoint(self.endpoint)

    @property
    def endpoint(self) -> EndpointSettings:
        """Where it is served."""
        return EndpointSettings(
            exporter_type=self.metrics_exporter_type,
            host=self.metrics_prom_exporter_host,
            port=self.metrics_prom_exporter_port,
            label=self.metrics_label,
            insecure_bind_enable=self.metrics_insecure_bind_enable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvMetricsOptions:
    """Metrics and health of a name server; RocketMQ's has none."""

    # fmt: off
    metrics_exporter_type: str = option(
        "DISABLE", flaremq="metricsExporterType", affects="behaviour", fixed=AT_START, form=_TYPE_FORM, doc=_TYPE_DOC)
    metrics_prom_exporter_port: int = option(
        5558, flaremq="metricsPromExporterPort", affects="behaviour", fixed=AT_START, maximum=65535,
        doc="Port of metrics and health; 0 takes a free one.")
    metrics_prom_exporter_host: str = option(
        "", flaremq="metricsPromExporterHost", affects="behaviour", fixed=AT_START, form=_HOST_FORM, doc=_HOST_DOC)
    metrics_insecure_bind_enable: bool = option(
        False, flaremq="metricsInsecureBindEnable", affects="behaviour", fixed=SECURITY, doc=_INSECURE_DOC)
    metrics_label: str = option(
        "", flaremq="metricsLabel", affects="behaviour", fixed=AT_START, form="name:value pairs joined by commas",
        doc="Labels that every sample gets.")
    # fmt: on

    def __post_init__(self) -> None:
        check_values(self)
        check_endpoint(self.endpoint)

    @property
    def endpoint(self) -> EndpointSettings:
        """Where it is served."""
        return EndpointSettings(
            exporter_type=self.metrics_exporter_type,
            host=self.metrics_prom_exporter_host,
            port=self.metrics_prom_exporter_port,
            label=self.metrics_label,
            insecure_bind_enable=self.metrics_insecure_bind_enable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerMetricsOptions:
    """Metrics and health of a controller, under the names that RocketMQ's has for them."""

    # fmt: off
    metrics_exporter_type: str = option(
        "DISABLE", rocketmq="metricsExporterType", affects="behaviour", fixed=AT_START, form=_TYPE_FORM, doc=_TYPE_DOC)
    metric_prom_exporter_port: int = option(
        5559, rocketmq="metricPromExporterPort", affects="behaviour", fixed=AT_START, maximum=65535,
        doc="Port of metrics and health; 0 takes a free one. RocketMQ's default is 5557.")
    metric_prom_exporter_host: str = option(
        "", rocketmq="metricPromExporterHost", affects="behaviour", fixed=AT_START, form=_HOST_FORM, doc=_HOST_DOC)
    metrics_insecure_bind_enable: bool = option(
        False, flaremq="metricsInsecureBindEnable", affects="behaviour", fixed=SECURITY, doc=_INSECURE_DOC)
    metric_label: str = option(
        "", rocketmq="metricLabel", affects="behaviour", fixed=AT_START, form="name:value pairs joined by commas",
        doc="Labels that every sample gets.")
    # fmt: on

    def __post_init__(self) -> None:
        check_values(self)
        check_endpoint(self.endpoint)

    @property
    def endpoint(self) -> EndpointSettings:
        """Where it is served."""
        return EndpointSettings(
            exporter_type=self.metrics_exporter_type,
            host=self.metric_prom_exporter_host,
            port=self.metric_prom_exporter_port,
            label=self.metric_label,
            insecure_bind_enable=self.metrics_insecure_bind_enable,
        )


def check_endpoint(settings: EndpointSettings) -> None:
    """InvalidArgumentError unless these can be served."""
    is_enabled(settings)
    own_labels(settings)
    _address(settings)


def is_enabled(settings: EndpointSettings) -> bool:
    """Whether anything is served; InvalidArgumentError for a way of exporting that does not exist here."""
    text = settings.exporter_type.strip().upper()
    name = _TYPES[int(text)] if text.isascii() and text.isdigit() and int(text) < len(_TYPES) else text
    if name in ("OTLP_GRPC", "LOG"):
        raise InvalidArgumentError(
            f"option metricsExporterType={settings.exporter_type!r} does not exist here: use PROM and let a collector "
            "(OpenTelemetry's prometheusreceiver, for one) scrape"
        )
    if name not in _TYPES:
        raise InvalidArgumentError(
            f"option metricsExporterType={settings.exporter_type!r} is not allowed: {_TYPE_FORM}"
        )
    return name == "PROM"


def check_reach(settings: EndpointSettings, *, insecure: bool) -> None:
    """Refuse an address that other machines reach unless that was said; an account guards nothing here."""
    if not is_enabled(settings) or _address(settings).is_loopback or insecure or settings.insecure_bind_enable:
        return
    raise InvalidArgumentError(
        f"the address for metrics, {settings.host!r}, lets other machines in, and nobody is asked who they are there, "
        "with access control too: set metricsInsecureBindEnable=true if everybody who reaches it may read names of "
        "topics and groups"
    )


def host_of(settings: EndpointSettings) -> str:
    """Where to listen."""
    return str(_address(settings))


def own_labels(settings: EndpointSettings) -> dict[str, str]:
    """The labels an operator adds. Entries that do not split in two are dropped, as in RocketMQ."""
    found = {}
    for entry in settings.label.split(","):
        parts = entry.split(":")
        if len(parts) != 2:
            continue
        name = parts[0].strip()
        if not _LABEL_NAME.fullmatch(name) or name.startswith("__") or name in ("le", "quantile"):
            raise InvalidArgumentError(f"option metricsLabel: {name!r} is no name for a label")
        found[name] = parts[1].strip()
    return found


def _address(settings: EndpointSettings) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    text = settings.host.strip() or "127.0.0.1"
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise InvalidArgumentError(f"the address for metrics, {text!r}, is not allowed: {_HOST_FORM}") from None
