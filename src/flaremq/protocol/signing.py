"""Signed requests: what a broker with access control asks for."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping

from flaremq.protocol.command import ExtValue
from flaremq.protocol.header_json import as_text

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"
SIGNATURE = "Signature"


def signed(
    ext: Mapping[str, ExtValue] | None, body: bytes, *, access_key: str, secret_key: str, security_token: str = ""
) -> dict[str, str]:
    """The ext fields with those that prove who sends them.

    The signature covers the values of all fields in the order of their names, then the body.
    """
    fields = {name: as_text(value) for name, value in ext.items()} if ext else {}
    fields[ACCESS_KEY] = access_key
    if security_token:
        fields[SECURITY_TOKEN] = security_token
    fields.pop(SIGNATURE, None)
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    fields[SIGNATURE] = base64.b64encode(hmac.digest(secret_key.encode(), content, "sha1")).decode()
    return fields
