"""Snapshot: all accounts and white lists at one moment. It never changes; a reload makes another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flaremq.access.plain.account import PlainAccount, parse_account
from flaremq.access.plain.acl_file import AclFile, FileVersion
from flaremq.access.plain.address_patterns import AddressPattern, parse_pattern
from flaremq.errors import InvalidArgumentError
from flaremq.visible import visible


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the judge asks. Files stand in the order in which they count."""

    accounts: Mapping[str, PlainAccount]
    white_list: tuple[AddressPattern, ...]
    files: tuple[AclFile, ...]
    warnings: tuple[str, ...]

    def file_of(self, access_key: str) -> AclFile | None:
        """The file whose account of that key is in use."""
        return next((file for file in self.files if has_account(file, access_key)), None)

    def versions(self) -> dict[str, FileVersion]:
        return {file.path: file.version for file in self.files}


def build_snapshot(files: Sequence[AclFile]) -> Snapshot:
    """Check everything the files say; InvalidArgumentError names the file."""
    accounts: dict[str, PlainAccount] = {}
    white_list: list[AddressPattern] = []
    warnings: list[str] = []
    for file in files:
        try:
            white_list += [parse_pattern(text) for text in file.white_list() if text.strip()]
            for entry in file.accounts():
                parsed = parse_account(entry)
                warnings += [f"{file.path}: {warning}" for warning in parsed.warnings]
                key = parsed.account.name
                if accounts.setdefault(key, parsed) is not parsed:
                    warnings.append(f"{file.path}: account {visible(key)!r} is there already; this one is not used")
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{file.path}: {error}") from None
        if any(pattern.is_everybody for pattern in white_list):
            warnings.append(f"{file.path}: the white list lets everybody do everything")
    return Snapshot(accounts, tuple(white_list), tuple(files), tuple(dict.fromkeys(warnings)))


def has_account(file: AclFile, access_key: str) -> bool:
    return any(entry.get("accessKey") == access_key for entry in file.accounts() if isinstance(entry, dict))
