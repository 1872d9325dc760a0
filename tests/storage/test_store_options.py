"""Options of the store: defaults, loading a broker.conf, warnings, and the page made from the rows."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flaremq.errors import InvalidArgumentError
from flaremq.options import rows, rows_by_key, snake_name
from flaremq.storage.option_names import IGNORED_BY_ROCKETMQ, NOT_IMPLEMENTED, OTHER_LAYERS
from flaremq.storage.options import StoreOptions, unknown_names

ROOT = Path(__file__).resolve().parents[2]

BROKER_CONF = """\
# as shipped, with the additions that people make
brokerClusterName = DefaultCluster
brokerName = broker-a
brokerId = 0
namesrvAddr = 127.0.0.1:9876
autoCreateTopicEnable = true
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = ASYNC_FLUSH
storePathRootDir = /data/rocketmq/store
storePathConsumeQueue = /data/rocketmq/store/consumequeue
"""


@pytest.fixture
def broker_conf(tmp_path: Path) -> Path:
    file = tmp_path / "broker.conf"
    file.write_text(BROKER_CONF)
    return file


def test_defaults_pass_their_own_rows() -> None:
    for row in rows(StoreOptions):
        row.check(row.default)
    assert StoreOptions().warnings == []


def test_a_put_waits_for_the_disk_unless_told_otherwise() -> None:
    assert StoreOptions().flush_disk_type == "SYNC_FLUSH"


def test_every_field_is_the_snake_case_of_its_name() -> None:
    fields = [f.name for f in dataclasses.fields(StoreOptions) if f.name != "ignored_names"]
    assert fields == [snake_name(row.key) for row in rows(StoreOptions)]


def test_every_row_has_one_sentence_that_ends() -> None:
    for row in rows(StoreOptions):
        assert row.doc.endswith(".") and row.doc[0].isupper() and "  " not in row.doc, row.key
        assert not row.unused or row.unused.endswith("."), row.key


def test_no_name_stands_in_two_lists() -> None:
    lists = [set(rows_by_key(StoreOptions)), OTHER_LAYERS, NOT_IMPLEMENTED, set(IGNORED_BY_ROCKETMQ)]
    assert sum(map(len, lists)) == len(set().union(*lists))


def test_a_broker_conf_loads_with_names_of_other_layers_in_it(broker_conf: Path) -> None:
    options = StoreOptions.load(broker_conf)
    assert options.flush_disk_type == "ASYNC_FLUSH"
    assert options.file_reserved_time == 48
    assert options.store_root == "/data/rocketmq/store"


def test_overrides_win_over_the_file(broker_conf: Path) -> None:
    options = StoreOptions.load(broker_conf, {"fileReservedTime": "1", "maxIndexNum": "800"})
    assert (options.file_reserved_time, options.max_index_num) == (1, 800)


def test_overrides_work_without_a_file() -> None:
    assert StoreOptions.load(None, {"maxHashSlotNum": "200"}) == StoreOptions(max_hash_slot_num=200)
    assert StoreOptions.load(None) == StoreOptions()


def test_a_name_that_rocketmq_ignores_too_is_accepted_with_a_warning(broker_conf: Path) -> None:
    (warning,) = StoreOptions.load(broker_conf).warnings
    assert warning.startswith("storePathConsumeQueue is ignored, as in RocketMQ, which has no such option")


@pytest.mark.parametrize("name", sorted(IGNORED_BY_ROCKETMQ))
def test_each_such_name_has_its_sentence(name: str) -> None:
    assert StoreOptions.from_properties({name: "x"}).warnings == [IGNORED_BY_ROCKETMQ[name]]
    assert name in IGNORED_BY_ROCKETMQ[name]


def test_an_option_of_an_absent_feature_is_accepted_with_a_warning() -> None:
    (warning,) = StoreOptions.from_properties({"enableCompaction": "true"}).warnings
    assert "enableCompaction is ignored" in warning


def test_an_option_without_effect_warns_only_when_it_is_changed() -> None:
    assert StoreOptions.from_properties({"useReentrantLockWhenPutMessage": "true"}).warnings == []
    (warning,) = StoreOptions(use_reentrant_lock_when_put_message=False).warnings
    assert "useReentrantLockWhenPutMessage=false has no effect" in warning


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        StoreOptions.from_properties({"flushDiskTyp": "SYNC_FLUSH", "brokerNam": "a"})
    assert str(caught.value) == (
        "unknown option flushDiskTyp: did you mean flushDiskType?; unknown option brokerNam: did you mean brokerName?"
    )


def test_unknown_names_lists_only_what_nobody_knows() -> None:
    names = ["brokerName", "maxIndexNum", "timerWheelEnable", "abortFile", "maxIndexNumber"]
    assert [str(found) for found in unknown_names(names)] == [
        "unknown option maxIndexNumber: did you mean maxIndexNum?"
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flushDiskType", "SYNC"),
        ("mappedFileSizeCommitLog", "1g"),
        ("mappedFileSizeConsumeQueue", "19"),
        ("maxIndexNum", "1"),
        ("deleteWhen", "24"),
        ("deleteWhen", "four"),
        ("diskMaxUsedSpaceRatio", "96"),
        ("messageDelayLevel", "1s 5x"),
        ("messageDelayLevel", ""),
        ("listenPort", "65536"),
        ("brokerIP1", "broker.example"),
        ("brokerIP1", "1.2.3"),
        ("brokerRole", "MASTER"),
        ("checkCRCOnRecover", "on"),
    ],
)
def test_a_bad_value_is_refused_and_named(name: str, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^option {name}=.* is not allowed: "):
        StoreOptions.from_properties({name: text})


@pytest.mark.parametrize("address", ["10.0.0.5", "::1", "fe80::1:2"])
def test_the_store_host_may_be_of_either_family(address: str) -> None:
    assert StoreOptions(broker_ip1=address).broker_ip1 == address


def test_verifying_a_checksum_that_is_not_written_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"forceVerifyPropCRC.*enabledAppendPropCRC"):
        StoreOptions(force_verify_prop_crc=True)
    StoreOptions(force_verify_prop_crc=True, enabled_append_prop_crc=True)


def test_an_index_file_beyond_javas_reach_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="maxHashSlotNum=5000000 and maxIndexNum=110000000"):
        StoreOptions(max_index_num=110_000_000)


def test_a_log_file_smaller_than_the_largest_message_warns() -> None:
    (warning,) = StoreOptions(mapped_file_size_commit_log=131_072).warnings
    assert "131072" in warning and "131064 bytes are refused" in warning


def test_refusing_puts_before_making_space_warns() -> None:
    (warning,) = StoreOptions(disk_space_clean_forcibly_ratio=95).warnings
    assert "diskSpaceCleanForciblyRatio=95" in warning


def test_properties_read_back_as_the_same_options() -> None:
    options = StoreOptions(broker_ip1="::1", message_index_enable=False, delete_when="02;04", max_index_num=800)
    assert StoreOptions.from_properties(options.to_properties()) == options
    assert StoreOptions.from_properties(options.to_properties(changed_only=True)) == options


def test_a_replaced_copy_is_checked_again() -> None:
    with pytest.raises(InvalidArgumentError, match="fileReservedTime"):
        dataclasses.replace(StoreOptions(), file_reserved_time=-1)


def test_commit_log_folders_default_to_one_below_the_root() -> None:
    assert StoreOptions().commit_log_folders("/s") == [os.path.join("/s", "commitlog")]
    several = StoreOptions(store_path_commit_log="/a, /b,", read_only_commit_log_store_paths="/b")
    assert several.commit_log_folders("/s") == ["/a", "/b"]
    assert several.read_only_commit_log_folders == ["/b"]


def test_the_root_defaults_to_store_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somebody")
    assert StoreOptions().store_root == "/somebody/store"


@pytest.mark.parametrize(("text", "hours"), [("04", {4}), ("4;23;", {4, 23}), (" 00 ; 12", {0, 12})])
def test_delete_hours_are_numbers(text: str, hours: set[int]) -> None:
    assert StoreOptions(delete_when=text).delete_hours == hours


@pytest.mark.parametrize(("given", "on_disk"), [(20, 20), (21, 40), (2000, 2000), (6_000_000, 6_000_000)])
def test_a_queue_file_holds_whole_units(given: int, on_disk: int) -> None:
    assert StoreOptions(mapped_file_size_consume_queue=given).consume_queue_file_size == on_disk


def test_the_default_index_file_has_rocketmqs_size() -> None:
    assert StoreOptions().index_file_size == 420_000_040


def test_the_options_page_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_options_page_has_a_line_for_every_option() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert [row.key for row in rows(StoreOptions) if f"| `{row.key}` |" not in page] == []
