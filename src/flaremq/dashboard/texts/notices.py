"""Notices, reasons why something is not known, effects of actions."""

from __future__ import annotations

TEXTS = {
    "notice.broker_down": ("Broker {broker} does not answer.", "Broker {broker} 没有响应。"),
    "notice.broker_not_writable": ("Broker {broker} does not take messages.", "Broker {broker} 不接受写入。"),
    "notice.lag_growing": (
        "The lag of group {group} in topic {topic} has grown for {minutes} minutes; it is {lag} messages.",
        "消费组 {group} 在主题 {topic} 的堆积已连续增长 {minutes} 分钟，现为 {lag} 条。",
    ),
    "notice.silent_member": (
        "Member {client} of group {group} has committed nothing for {seconds} seconds.",
        "消费组 {group} 的成员 {client} 已 {seconds} 秒没有提交。",
    ),
    "notice.disk_filling": ("The disk of broker {broker} is {ratio} used.", "Broker {broker} 的磁盘已使用 {ratio}。"),
    "notice.disk_full_soon": (
        "The disk of broker {broker} is full in {hours} hours at this rate.",
        "按当前速度，Broker {broker} 的磁盘将在 {hours} 小时后写满。",
    ),
    "notice.damaged_log": (
        "The log of broker {broker} has {ranges} damaged places, {bytes}.",
        "Broker {broker} 的日志有 {ranges} 处损坏，共 {bytes}。",
    ),
    "notice.old_half_message": (
        "Broker {broker} has a half message that waits for {minutes} minutes.",
        "Broker {broker} 有半消息已等待 {minutes} 分钟。",
    ),
    "notice.dead_letters": ("Group {group} has {count} dead letters.", "消费组 {group} 有 {count} 条死信。"),
    "notice.subscriptions_differ": (
        "Members of group {group} subscribe to topic {topic} differently; some messages reach nobody.",
        "消费组 {group} 的成员对主题 {topic} 的订阅不一致，部分消息可能无人消费。",
    ),
    "notice.no_member": (
        "Group {group} has no member and a lag of {lag} messages.",
        "消费组 {group} 没有成员，堆积 {lag} 条。",
    ),
    "notice.name_server_unreachable": ("A name server does not answer: {detail}", "名字服务器没有响应：{detail}"),
    "notice.access_denied": ("Access control denies part of this: {detail}", "访问控制拒绝了部分内容：{detail}"),
    "notice.lists_cut": ("{what}: {shown} of {total} are shown.", "{what}：共 {total} 个，仅显示 {shown} 个。"),
    "notice.sampling_slow": (
        "Figures are {age_ms} old: the cluster answers slowly.",
        "数据已有 {age_ms} 未更新：集群响应缓慢。",
    ),
    "reason.not_told": ("this version of the broker does not tell", "此版本的 Broker 不提供"),
    "reason.not_read_yet": ("not read yet", "尚未读取"),
    "reason.unreachable": ("the broker cannot be reached", "无法连接 Broker"),
    "reason.denied": ("the account lacks the permission", "账号没有权限"),
    "reason.off": ("switched off", "未启用"),
    "reason.broadcast": ("members keep their own offsets", "广播模式，位点由成员自己保存"),
    "reason.no_data": ("no data", "没有数据"),
    "reason.too_many": ("too many to read", "数量过多，未读取"),
    "reason.verify_at_rest": (
        "of a store at rest, or of a copy: flaremq store verify",
        "需在静止的存储或其副本上运行 flaremq store verify",
    ),
    "reason.not_on_wire": ("no request of the protocol tells this", "协议没有提供此信息的请求"),
    "missing.title": ("– means unknown. Why", "– 表示未知，原因"),
    "effect.topic_created": ("The topic is created.", "创建主题。"),
    "effect.topic_changed": ("The topic's configuration is replaced.", "替换主题配置。"),
    "effect.topic_deleted": ("The topic and its {messages} messages go.", "删除主题及其 {messages} 条消息。"),
    "effect.group_deleted": ("The group goes; its lag was {lag} messages.", "删除消费组；其堆积为 {lag} 条。"),
    "effect.read_again": ("{messages} messages are consumed again.", "{messages} 条消息将被重新消费。"),
    "effect.skipped": ("{messages} messages are skipped.", "{messages} 条消息将被跳过。"),
    "effect.sent": ("{count} messages are sent.", "发送 {count} 条消息。"),
    "effect.resent": ("{count} messages are sent again.", "重新发送 {count} 条消息。"),
    "effect.option_set": (
        "{name} is {value}, until: {until}.",
        "{name} 设为 {value}，有效期：{until}。",
    ),
    "effect.permission": ("The permission of {topics} topics changes.", "{topics} 个主题的权限将改变。"),
    "effect.cleaned": ("The broker deletes what is due.", "Broker 删除到期内容。"),
    "effect.recalled": ("The waiting message of topic {topic} is not delivered.", "撤回主题 {topic} 中等待的消息。"),
    "effect.rechecked": ("The producer is asked for the outcome again.", "再次向生产者回查事务结果。"),
    "effect.delivered": ("The member consumed it: {result}.", "成员消费结果：{result}。"),
}
