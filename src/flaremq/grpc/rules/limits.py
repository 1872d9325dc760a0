"""What calls may ask for; RocketMQ's numbers where it has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """The limits of one door. Times in milliseconds, sizes in bytes."""

    max_message_size: int = 4 << 20
    max_user_property_size: int = 16_384
    user_property_max_num: int = 128
    max_message_group_size: int = 64
    max_delay_time_ms: int = 24 * 3600_000
    max_transaction_recovery_seconds: int = 3600
    enable_topic_message_type_check: bool = True

    min_invisible_time_ms: int = 10_000
    max_invisible_time_ms: int = 12 * 3600_000
    default_invisible_time_ms: int = 60_000
    invisible_time_when_clear_ms: int = 1_000
    min_long_polling_ms: int = 5_000
    max_long_polling_ms: int = 20_000
    receive_batch_size: int = 32

    enable_auto_renew: bool = True
    renew_ahead_ms: int = 10_000
    renew_period_ms: int = 5_000
    renew_max_ms: int = 3 * 3600_000

    producer_max_attempts: int = 3
    producer_backoff_initial_ms: int = 10
    producer_backoff_max_ms: int = 1_000
    producer_backoff_multiplier: int = 2

    client_expired_ms: int = 120_000  # silence after which a client is gone
    stream_grace_ms: int = 15_000  # so long a client may be without a Telemetry stream
    clients_max: int = 20_000
    settings_bytes_max: int = 64 << 20  # of all clients together
    request_timeout_ms: int = 3_000  # of ours to brokers
    client_answer_ms: int = 5_000  # of a client to a command
    messages_per_send_max: int = 1_024
    acks_per_call_max: int = 1_024
