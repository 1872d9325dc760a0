"""The messages of `apache.rocketmq.v2` as a table: one line a message, its fields numbered 1, 2, 3 … as they stand.

    S string · I int32 · L int64 · B bool · Y bytes · F float · D google.protobuf.Duration · T google.protobuf.Timestamp
    R Resource · N Endpoints · Q MessageQueue · X FilterExpression · M Message · C Status · map map<string, string>
    any other word names a message or an enum;  * repeated  ? optional, with presence  name{…} a oneof, which counts on

Taken from the published protocol (rocketmq-apis v2.1.2, and `client_properties` of its main branch).
"""

from __future__ import annotations

from typing import Final

PACKAGE: Final = "apache.rocketmq.v2"

SHORT: Final = {
    "D": "google.protobuf.Duration",
    "T": "google.protobuf.Timestamp",
    "R": "Resource",
    "N": "Endpoints",
    "Q": "MessageQueue",
    "X": "FilterExpression",
    "M": "Message",
    "C": "Status",
}

MESSAGES: Final = """
Resource resource_namespace:S name:S
FilterExpression type:FilterType expression:S
Address host:S port:I
Endpoints scheme:AddressScheme addresses:Address*
Broker name:S id:I endpoints:N
MessageQueue topic:R id:I permission:Permission broker:Broker accept_message_types:MessageType*
Digest type:DigestType checksum:S
DeadLetterQueue topic:S message_id:S
SystemProperties tag:S? keys:S* message_id:S body_digest:Digest body_encoding:Encoding message_type:MessageType \
born_timestamp:T born_host:S store_timestamp:T? store_host:S delivery_timestamp:T? receipt_handle:S? queue_id:I \
queue_offset:L? invisible_duration:D? delivery_attempt:I? message_group:S? trace_context:S? \
orphaned_transaction_recovery_duration:D? dead_letter_queue:DeadLetterQueue? lite_topic:S? priority:I?
Message topic:R user_properties:map system_properties:SystemProperties body:Y
Status code:Code message:S
ExponentialBackoff initial:D max:D multiplier:F
CustomizedBackoff next:D*
RetryPolicy max_attempts:I strategy{ exponential_backoff:ExponentialBackoff customized_backoff:CustomizedBackoff }
SubscriptionEntry topic:R expression:X
Publishing topics:R* max_body_size:I validate_message_type:B
Subscription group:R? subscriptions:SubscriptionEntry* fifo:B? receive_batch_size:I? long_polling_timeout:D? \
lite_subscription_quota:I? max_lite_topic_size:I?
UA language:Language version:S platform:S hostname:S
Metric on:B endpoints:N?
Settings client_type:ClientType? access_point:N? backoff_policy:RetryPolicy? request_timeout:D? \
pub_sub{ publishing:Publishing subscription:Subscription } user_agent:UA metric:Metric client_properties:map
Assignment message_queue:Q
QueryRouteRequest topic:R endpoints:N
QueryRouteResponse status:C message_queues:Q*
SendMessageRequest messages:M*
SendMessageResponse status:C entries:SendResultEntry*
SendResultEntry status:C message_id:S transaction_id:S offset:L recall_handle:S
QueryAssignmentRequest topic:R group:R endpoints:N
QueryAssignmentResponse status:C assignments:Assignment*
ReceiveMessageRequest group:R message_queue:Q filter_expression:X batch_size:I invisible_duration:D? auto_renew:B \
long_polling_timeout:D? attempt_id:S?
ReceiveMessageResponse content{ status:C message:M delivery_timestamp:T }
AckMessageRequest group:R topic:R entries:AckMessageEntry*
AckMessageEntry message_id:S receipt_handle:S lite_topic:S?
AckMessageResponse status:C entries:AckMessageResultEntry*
AckMessageResultEntry message_id:S receipt_handle:S status:C
ForwardMessageToDeadLetterQueueRequest group:R topic:R receipt_handle:S message_id:S delivery_attempt:I \
max_delivery_attempts:I lite_topic:S?
ForwardMessageToDeadLetterQueueResponse status:C
HeartbeatRequest group:R? client_type:ClientType
HeartbeatResponse status:C
EndTransactionRequest topic:R message_id:S transaction_id:S resolution:TransactionResolution \
source:TransactionSource trace_context:S
EndTransactionResponse status:C
NotifyClientTerminationRequest group:R?
NotifyClientTerminationResponse status:C
ChangeInvisibleDurationRequest group:R topic:R receipt_handle:S invisible_duration:D message_id:S lite_topic:S? \
suspend:B?
ChangeInvisibleDurationResponse status:C receipt_handle:S
RecallMessageRequest topic:R recall_handle:S
RecallMessageResponse status:C message_id:S
TelemetryCommand status:C? command{ settings:Settings thread_stack_trace:ThreadStackTrace \
verify_message_result:VerifyMessageResult \
recover_orphaned_transaction_command:RecoverOrphanedTransactionCommand \
print_thread_stack_trace_command:PrintThreadStackTraceCommand verify_message_command:VerifyMessageCommand \
reconnect_endpoints_command:ReconnectEndpointsCommand \
notify_unsubscribe_lite_command:NotifyUnsubscribeLiteCommand }
ThreadStackTrace nonce:S thread_stack_trace:S?
VerifyMessageResult nonce:S
RecoverOrphanedTransactionCommand message:M transaction_id:S
PrintThreadStackTraceCommand nonce:S
VerifyMessageCommand nonce:S message:M
ReconnectEndpointsCommand nonce:S
NotifyUnsubscribeLiteCommand lite_topic:S
PullMessageRequest group:R message_queue:Q offset:L batch_size:I filter_expression:X long_polling_timeout:D
PullMessageResponse content{ status:C message:M next_offset:L }
UpdateOffsetRequest group:R message_queue:Q offset:L
UpdateOffsetResponse status:C
GetOffsetRequest group:R message_queue:Q
GetOffsetResponse status:C offset:L
QueryOffsetRequest message_queue:Q query_offset_policy:QueryOffsetPolicy timestamp:T?
QueryOffsetResponse status:C offset:L
SyncLiteSubscriptionRequest action:LiteSubscriptionAction topic:R group:R lite_topic_set:S* version:L? \
offset_option:OffsetOption?
SyncLiteSubscriptionResponse status:C
OffsetOption offset_type{ policy:Policy offset:L tail_n:L timestamp:L }
"""

# Enums that stand inside a message.
NESTED: Final = {"OffsetOption": ("Policy",)}
