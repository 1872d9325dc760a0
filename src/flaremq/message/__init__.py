"""Messages as values and as stored bytes: pure functions, no files, no clock.

``Message`` is what goes in, ``MessageExt`` what comes out; ``codec`` knows the record layout between them and
``record_check`` tells a record from other bytes. Modules are imported by name; only the two values everyone
needs are re-exported here.
"""

from flaremq.message.message import Message
from flaremq.message.message_ext import MessageExt

__all__ = ["Message", "MessageExt"]
