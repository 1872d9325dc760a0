"""Texts that scripts put into pages. ``{names}`` are filled in there."""

from __future__ import annotations

TEXTS = {
    "js.time": ("Time", "时间"),
    "js.live": ("live, {when}", "实时，{when}"),
    "js.stale": ("not live: last news {age} ago", "连接中断：{age}前更新"),
    "js.unknown": ("unknown", "未知"),
    "js.tail_on": ("Following. New messages: {n}.", "正在跟踪：新消息 {n} 条。"),
    "js.tail_paused": ("Paused. Waiting messages: {n}.", "已暂停：{n} 条等待显示。"),
    "js.tail_dropped": ("Left out: {n}, too many to show.", "过多，略去 {n} 条。"),
    "js.tail_off": ("Not following.", "已停止跟踪。"),
    "js.start": ("Follow new messages", "跟踪新消息"),
    "js.stop": ("Stop following", "停止跟踪"),
    "js.pause": ("Pause", "暂停"),
    "js.resume": ("Resume", "继续"),
    "js.binary": ("binary", "二进制"),
    "js.empty": ("empty", "空"),
    "js.copied": ("Copied", "已复制"),
    "js.failed": ("That did not work: {detail}", "操作失败：{detail}"),
    "js.waiting": ("One moment…", "请稍候…"),
    "js.close": ("Close", "关闭"),
}
