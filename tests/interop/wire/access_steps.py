"""What mqadmin is asked about access control, in this order, by whom, and what has to be in its answer."""

from __future__ import annotations

from dataclasses import dataclass

from tests.interop.wire.mqadmin_steps import Step


@dataclass(frozen=True, slots=True)
class Asked:
    """``by``: who the tool signs as; see the table of the tests."""

    step: Step
    by: str = "admin"


_PLAIN = "CODE: 1 DESC: org.apache.rocketmq.acl.common.AclException: "
_NEW = "rocketmq-new1"
_NOT_ADMIN = _PLAIN + "Need admin permission for request code={}, but accessKey=wire-app is not"


def _refused(name: str, command: str, words: str, by: str) -> Asked:
    return Asked(Step(name, command, (words,), is_refused=True), by)


ACL_STEPS = (
    Asked(Step("clusterList", "clusterList", (r"DefaultCluster broker-a 0 {broker} V\d_\d+_\d+ [\d.]+\(",))),
    Asked(Step("topicList", "topicList", ("{topic}", "%RETRY%{group}"))),
    Asked(
        Step(
            "updateTopic",
            "updateTopic -c DefaultCluster -t {run}-made -r 4 -w 4",
            ("create topic to {broker} success.", "topicName={run}-made, readQueueNums=4, writeQueueNums=4, perm=RW-"),
        )
    ),
    Asked(Step("consumerProgress", "consumerProgress -g {group}", (r"{topic} broker-a 0 3 3",))),
    Asked(
        Step(
            "updateAclConfig",
            f"updateAclConfig -c DefaultCluster -a {_NEW} -s new1-secret-1 -w 192.168.0.* -i DENY -u SUB "
            "-t topicA=DENY,topicB=PUB|SUB -g groupA=SUB -m false",
            ("create or update plain access config to {broker} success.",),
        )
    ),
    Asked(
        Step(
            "getAclConfig",
            "getAclConfig -c DefaultCluster",
            (
                rf"accessKey : {_NEW} secretKey : \*{{6}} whiteRemoteAddress: 192.168.0.\* admin : false "
                r"defaultTopicPerm : DENY defaultGroupPerm : SUB topicPerms : \[topicA=DENY, topicB=PUB\|SUB\] "
                r"groupPerms : \[groupA=SUB\]",
                r"accessKey : wire-app secretKey : \*{6}",
            ),
        )
    ),
    Asked(
        Step(
            "updateAclConfig_of_a_broker",
            f"updateAclConfig -b {{broker}} -a {_NEW} -s new1-secret-2 -m true",
            ("create or update plain access config to {broker} success.",),
        )
    ),
    Asked(
        Step(
            "getAccessConfigSubCommand",
            "getAccessConfigSubCommand -b {broker}",
            (rf"accessKey : {_NEW} secretKey : \*{{6}} whiteRemoteAddress: 192.168.0.\* admin : true",),
            absent=("new1-secret-2",),
        )
    ),
    _refused(
        "updateAclConfig_with_a_short_key",
        "updateAclConfig -b {broker} -a abc -s abcdefg",
        r"CODE: 209 DESC: The accessKey=abc and secretKey=\*{6} cannot be null and length should longer than 6",
        "admin",
    ),
    Asked(
        Step(
            "updateGlobalWhiteAddr",
            "updateGlobalWhiteAddr -c DefaultCluster -g 10.10.103.*,192.168.0.*",
            ("update global white remote addresses to {broker} success.",),
        )
    ),
    _refused(
        "updateGlobalWhiteAddr_of_another_file",
        "updateGlobalWhiteAddr -b {broker} -g 10.10.104.* -p /no/such/file.yml",
        "CODE: 211 ",
        "admin",
    ),
    Asked(
        Step(
            "clusterAclConfigVersion",
            "clusterAclConfigVersion -c DefaultCluster",
            (
                r"DefaultCluster broker-a {broker} /\S+/conf/plain_acl.yml 3 20\d\d-\d\d-\d\d ",
                "get cluster's plain access config version success.",
            ),
        )
    ),
    Asked(
        Step(
            "deleteAclConfig",
            f"deleteAclConfig -c DefaultCluster -a {_NEW}",
            ("delete plain access config account from {broker} success.", f"account's accesskey is:{_NEW}"),
        )
    ),
    _refused("deleteAccessConfig_again", f"deleteAccessConfig -b {{broker}} -a {_NEW}", "CODE: 210 ", "admin"),
    Asked(Step("topicStatus_as_user", "topicStatus -t {topic}", (r"broker-a 0 0 3 ",)), "app"),
    _refused("updateTopic_as_user", "updateTopic -b {broker} -t {run}-mine -r 4 -w 4", _NOT_ADMIN.format(17), "app"),
    _refused("getAclConfig_as_user", "getAclConfig -b {broker}", _NOT_ADMIN.format(54), "app"),
    _refused(
        "updateAclConfig_as_user",
        "updateAclConfig -b {broker} -a wire-app -s other-secret-1 -m true",
        _NOT_ADMIN.format(50),
        "app",
    ),
    _refused("deleteAclConfig_as_user", "deleteAclConfig -b {broker} -a wire-reader", _NOT_ADMIN.format(51), "app"),
    _refused(
        "updateTopic_with_a_wrong_secret",
        "updateTopic -b {broker} -t {run}-mine -r 4 -w 4",
        _PLAIN + "Check signature failed for accessKey=wire-admin",
        "wrong",
    ),
    _refused(
        "updateTopic_unsigned",
        "updateTopic -b {broker} -t {run}-mine -r 4 -w 4",
        _PLAIN + "No accessKey is configured",
        "nobody at all",
    ),
    _refused("clusterList_unsigned", "clusterList", _PLAIN + "No accessKey is configured", "nobody at all"),
)

_NO_PASSWORD = r"\*{6}"
_USER = "{run}-user"
AUTH_STEPS = (
    Asked(Step("clusterList", "clusterList", (r"DefaultCluster broker-a 0 {broker} V\d_\d+_\d+ [\d.]+\(",))),
    Asked(Step("topicList", "topicList", ("{topic}", "%RETRY%{group}"))),
    Asked(
        Step(
            "updateTopic",
            "updateTopic -c DefaultCluster -t {run}-made -r 4 -w 4",
            ("create topic to {broker} success",),
        )
    ),
    Asked(Step("consumerProgress", "consumerProgress -g {group}", (r"{topic} broker-a 0 3 3",))),
    Asked(
        Step(
            "createUser",
            f"createUser -c DefaultCluster -u {_USER} -p new1-secret-1 -t Normal",
            ("create user to {broker} success.",),
        )
    ),
    Asked(
        Step(
            "createUser_of_a_broker",
            "createUser -b {broker} -u {run}-other -p new1-secret-1",
            ("create user to {broker} success.",),
        )
    ),
    _refused(
        "createUser_again",
        f"createUser -b {{broker}} -u {_USER} -p other -t Normal",
        "CODE: 16 DESC: The user is existed",
        "admin",
    ),
    Asked(
        Step(
            "getUser",
            f"getUser -c DefaultCluster -u {_USER}",
            (f"#UserName #Password #UserType #UserStatus {_USER} {_NO_PASSWORD} Normal enable",),
        )
    ),
    Asked(Step("getUser_that_is_none", "getUser -b {broker} -u {run}-stranger", (), absent=("{run}-stranger Normal",))),
    Asked(
        Step(
            "listUser",
            "listUser -c DefaultCluster",
            (
                f"wire-admin {_NO_PASSWORD} Super enable",
                f"wire-app {_NO_PASSWORD} Normal enable",
                f"{_USER} {_NO_PASSWORD} Normal enable",
                "get user from {broker} success.",
            ),
        )
    ),
    Asked(
        Step("listUser_by_name", "listUser -b {broker} -f {run}-us", (f"{_USER} {_NO_PASSWORD}",), absent=("wire-app",))
    ),
    Asked(
        Step(
            "updateUser_disable",
            f"updateUser -c DefaultCluster -u {_USER} -s disable",
            ("update user to {broker} success.",),
        )
    ),
    Asked(Step("updateUser_is_seen", f"getUser -b {{broker}} -u {_USER}", (f"{_USER} {_NO_PASSWORD} Normal disable",))),
    Asked(
        Step(
            "updateUser_enable", f"updateUser -b {{broker}} -u {_USER} -s enable", ("update user to {broker} success.",)
        )
    ),
    Asked(
        Step(
            "updateUser_password",
            f"updateUser -b {{broker}} -u {_USER} -p next-secret-1",
            ("update user to {broker} success.",),
        )
    ),
    Asked(
        Step(
            "createAcl",
            f"createAcl -c DefaultCluster -s User:{_USER} -r Topic:both -a Pub,Sub -d Allow "
            "-i 127.0.0.1,192.168.0.0/16",
            ("create acl to {broker} success.",),
        )
    ),
    Asked(
        Step(
            "createAcl_of_a_group",
            f"createAcl -b {{broker}} -s User:{_USER} -r Group:goodGroup -a Sub -d Allow",
            ("create acl to {broker} success.",),
        )
    ),
    Asked(
        Step(
            "createAcl_that_denies",
            f"createAcl -b {{broker}} -s User:{_USER} -r Topic:denied,Topic:deny* -a All -d Deny",
            ("create acl to {broker} success.",),
        )
    ),
    _refused(
        "createAcl_of_nobody",
        "createAcl -b {broker} -s User:{run}-stranger -r Topic:both -a Pub -d Allow",
        "CODE: 16 DESC: The subject of User:{run}-stranger is not exist.",
        "admin",
    ),
    Asked(
        Step(
            "updateAcl",
            f"updateAcl -c DefaultCluster -s User:{_USER} -r Topic:temp -a Pub -d Allow",
            ("update acl to {broker} success.",),
        )
    ),
    Asked(
        Step(
            "getAcl",
            f"getAcl -c DefaultCluster -s User:{_USER}",
            (
                "#Subject #PolicyType #Resource #Actions #SourceIp #Decision",
                rf"User:{_USER} Custom Topic:both \[Pub, Sub\] \[127.0.0.1, 192.168.0.0/16\] Allow",
                rf"User:{_USER} Custom Group:goodGroup \[Sub\] null Allow",
                rf"User:{_USER} Custom Topic:denied \[All\] null Deny",
                rf"User:{_USER} Custom Topic:deny\* \[All\] null Deny",
                rf"User:{_USER} Custom Topic:temp \[Pub\] null Allow",
            ),
        )
    ),
    Asked(
        Step(
            "listAcl",
            "listAcl -c DefaultCluster",
            (r"User:wire-app Custom Topic:w\* \[Pub, Sub\] null Allow", rf"User:{_USER} Custom Topic:both "),
        )
    ),
    Asked(
        Step(
            "listAcl_by_parts",
            f"listAcl -b {{broker}} -s {_USER} -r both",
            (rf"User:{_USER} Custom Topic:both ",),
            absent=("Topic:temp", "wire-app"),
        )
    ),
    Asked(
        Step(
            "deleteAcl_of_one",
            f"deleteAcl -c DefaultCluster -s User:{_USER} -r Topic:temp",
            ("delete acl to {broker} success.",),
        )
    ),
    Asked(
        Step(
            "copyAcl",
            f"copyAcl -f {{broker}} -t {{broker}} -s User:{_USER}",
            (f"copy acl of User:{_USER} from {{broker}} to {{broker}} success.",),
        )
    ),
    Asked(Step("deleteAcl", f"deleteAcl -b {{broker}} -s User:{_USER}", ("delete acl to {broker} success.",))),
    Asked(Step("getAcl_that_is_none", f"getAcl -b {{broker}} -s User:{_USER}", (), absent=("Topic:both",))),
    # The password that the tool would carry over is a mask.
    _refused("copyUser", f"copyUser -f {{broker}} -t {{broker}} -u {_USER}", "CODE: 16 DESC: ", "admin"),
    Asked(Step("deleteUser", f"deleteUser -c DefaultCluster -u {_USER}", ("delete user to {broker} success.",))),
    Asked(Step("topicStatus_as_user", "topicStatus -t {topic}", (r"broker-a 0 0 3 ",)), "admin"),
    _refused(
        "updateTopic_as_user",
        "updateTopic -b {broker} -t {run}-mine -r 4 -w 4",
        "CODE: 16 DESC: User:wire-app has no permission to access Topic:{run}-mine from 127.0.0.1, ",
        "app",
    ),
    _refused(
        "createUser_as_user", "createUser -b {broker} -u evil -p evil -t Super", "CODE: 16 DESC: User:wire-app ", "app"
    ),
    _refused("listUser_as_user", "listUser -b {broker}", "CODE: 16 DESC: User:wire-app ", "app"),
    _refused("clusterList_with_a_wrong_secret", "clusterList", "CODE: 16 DESC: check signature failed.", "wrong"),
    _refused("clusterList_unsigned", "clusterList", "CODE: 16 DESC: username cannot be null.", "nobody at all"),
    _refused(
        "createAcl_unsigned",
        "createAcl -b {broker} -s User:wire-app -r * -a All -d Allow",
        "CODE: 16 DESC: username cannot be null.",
        "nobody at all",
    ),
)
