"""Who may look, who may change, and what every answer carries."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.routing import Route

from flaremq import Admin
from flaremq.client.options import ClientOptions
from flaremq.clock import ManualClock
from flaremq.dashboard.app.routes import Routes
from flaremq.dashboard.live.hub import Hub
from flaremq.dashboard.options import DashboardOptions
from flaremq.dashboard.security import sessions
from flaremq.dashboard.security.hosts import HostCheck, host_name
from flaremq.dashboard.security.sessions import Session, Sessions
from flaremq.dashboard.security.token import TokenFile
from flaremq.errors import InvalidArgumentError
from tests.support.dashboard_lab import TOKEN, Browser, DashboardLab, dashboard_lab, token_file

_PATHS = ("/", "/topics", "/api/overview", "/api/topics", "/healthz", "/login", "/nowhere", "/api/nowhere", "/static/x")


def test_every_answer_carries_the_security_headers(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            replies = [await lab.browser.get(path) for path in _PATHS]
            replies += [await lab.browser.request("DELETE", "/topics"), await lab.browser.request("POST", "/topics")]
            replies.append(await lab.browser.request("GET", "/", headers={"host": "evil.example"}))
            replies.append(await lab.browser.act("topic.create", topic="x"))
            for reply in replies:
                policy = reply.header("content-security-policy") or ""
                assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
                assert "unsafe" not in policy
                assert reply.header("x-content-type-options") == "nosniff"
                assert reply.header("referrer-policy") == "same-origin"
                assert reply.header("cache-control") is not None
                assert reply.header("server") is None
            async with lab.browser.stream("overview") as events:
                assert (await events.next())[0] == "snapshot"

    asyncio.run(run())


def test_without_a_token_file_nothing_can_be_changed(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path, can_change=False) as lab, Admin(lab.broker.name_server) as admin:
            refused = await lab.browser.act("topic.create", topic="made")
            assert refused.status == 403 and refused.json()["error"]["code"] == "forbidden"
            assert (await lab.browser.post_form("/actions/topic.create", topic="made", dry_run="false")).status == 403
            assert (await lab.browser.get("/login")).status == 404
            assert "made" not in await admin.list_topics()
            assert {line["rule"] for line in lab.audit_lines()} == {"read-only"}

    asyncio.run(run())


def test_a_post_needs_the_token_and_a_form_of_ours(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            browser = lab.browser
            assert (await browser.act("topic.create", topic="made")).status == 403  # nobody signed in
            assert (await browser.sign_in("not the token at all")).status == 401
            assert (await browser.sign_in()).status == 303
            csrf = await browser.csrf()
            body = json.dumps({"topic": "made", "dry_run": False}).encode()
            json_type = {"content-type": "application/json"}
            bad: list[dict[str, str]] = [
                json_type,
                {**json_type, "x-csrf-token": "wrong"},
                {**json_type, "x-csrf-token": csrf, "origin": "http://evil.example"},
                {**json_type, "x-csrf-token": csrf, "origin": "null"},
                {**json_type, "x-csrf-token": csrf, "sec-fetch-site": "cross-site"},
            ]
            for headers in bad:
                reply = await browser.request("POST", "/api/actions/topic.create", body, headers)
                assert reply.status == 403, headers
            stranger = Browser(browser.url)
            public = await stranger.csrf()
            headers = {**json_type, "x-csrf-token": public}
            assert (await browser.request("POST", "/api/actions/topic.create", body, headers)).status == 403
            assert "made" not in await admin.list_topics()
            good = {
                **json_type,
                "x-csrf-token": csrf,
                "origin": f"http://{browser.host}",
                "sec-fetch-site": "same-origin",
            }
            assert (await browser.request("POST", "/api/actions/topic.create", body, good)).json()["done"] == 1
            rules = {line.get("rule") for line in lab.audit_lines()}
            assert {"token", "csrf", "origin", "site"} <= rules

    asyncio.run(run())


def test_nothing_that_is_reached_by_get_changes_anything(tmp_path: Path) -> None:
    """Every route is walked with GET, as somebody who may change things; the cluster is the same afterwards."""

    async def state(admin: Admin, address: str) -> tuple[Any, ...]:
        return (
            await admin.list_topics(),
            await admin.list_groups(),
            await admin.broker_config(address),
            await admin.topic_configs(address),
        )

    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab, Admin(lab.broker.name_server) as admin:
            await lab.browser.sign_in()
            address = lab.broker.address
            before = await state(admin, address)
            routes = [route for route in Routes(lab.service.context, Hub(bytes)).routes() if isinstance(route, Route)]
            posts = {route.path for route in routes if "POST" in (route.methods or ())}
            assert posts == {"/login", "/logout", "/preferences", "/api/actions/{name}", "/actions/{name}"}
            for route in routes:
                path = route.path.replace("{name:path}", "orders").replace("{name}", "topic.create")
                query = {"topic": "made", "group": "made", "dry_run": "false", "confirm": "made", "broker": address}
                if path == "/api/live":
                    continue
                reply = await lab.browser.get(path, **query)
                assert reply.status != 500, (path, reply.text)
                assert route.path not in posts or reply.status in (200, 405), path
            assert await state(admin, address) == before

    asyncio.run(run())


def test_a_host_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path, allowed_hosts=("dash.example",)) as lab:
            for host, status in (
                ("evil.example", 421),
                ("127.0.0.1.evil.example", 421),
                ("evil.example:8082", 421),
                ("", 421),
                ("localhost:1", 200),
                ("dash.example", 200),
                ("[::1]:8082", 200),
            ):
                for path in ("/api/overview", "/", "/static/dashboard.css"):
                    reply = await lab.browser.request("GET", path, headers={"host": host})
                    assert reply.status == status, (host, path)
            probe = await lab.browser.request("GET", "/healthz", headers={"host": "10.0.0.7:8082"})
            assert probe.json() == {"ok": True}

    asyncio.run(run())


@pytest.mark.parametrize(
    "header", ["a/b", "user@localhost", "localhost#", "local host", "localhost,evil", "[::1", "a:b"]
)
def test_a_host_header_that_is_none_is_no_name(header: str) -> None:
    assert host_name(header) == ""
    assert not HostCheck("127.0.0.1").allows(header)


def test_other_machines_are_let_in_with_a_token_alone(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="--token-file"):
        DashboardOptions(name_servers="127.0.0.1:9876", listen="0.0.0.0:8082")
    DashboardOptions(name_servers="127.0.0.1:9876", listen="0.0.0.0:8082", token_file=token_file(tmp_path))

    async def run() -> None:
        async with dashboard_lab(tmp_path, listen="0.0.0.0:0") as lab:
            assert (await lab.browser.get("/api/overview")).status == 401
            seen = await lab.browser.get("/topics")
            assert seen.status == 303 and "login" in (seen.header("location") or "")
            await lab.browser.sign_in()
            assert (await lab.browser.get("/api/overview")).status == 200
            await lab.browser.post_form("/logout")
            assert (await lab.browser.get("/api/overview")).status == 401

    asyncio.run(run())


def test_the_cookie_is_for_this_site_and_not_for_scripts(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            reply = await lab.browser.post_form("/login", token=TOKEN, back="topics?sort=lag")
            cookie = (reply.header("set-cookie") or "").lower()
            assert "httponly" in cookie and "samesite=strict" in cookie
            assert reply.header("location") == "./topics?sort=lag"

    asyncio.run(run())


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "\\\\evil", "/etc", "javascript:alert(1)", "a\r\nb"]
)
def test_after_signing_in_nobody_is_sent_elsewhere(tmp_path: Path, back: str) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            reply = await lab.browser.post_form("/login", token=TOKEN, back=back)
            assert reply.header("location") == "./"

    asyncio.run(run())


def test_wrong_tokens_cannot_be_tried_without_end(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            seen = [(await lab.browser.sign_in(f"wrong token {number}")).status for number in range(7)]
            assert seen == [401] * 5 + [429] * 2
            assert (await lab.browser.sign_in()).status == 429
            refusals = [line for line in lab.audit_lines() if line["event"] == "refused"]
            assert refusals and not any(TOKEN in line["what"] for line in refusals)

    asyncio.run(run())


def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = token_file(tmp_path)
    assert TokenFile(path).matches(TOKEN)
    assert not TokenFile(path).matches(TOKEN + "x")
    os.chmod(path, 0o644)
    with pytest.raises(InvalidArgumentError, match="0644"):
        TokenFile(path)
    with pytest.raises(InvalidArgumentError, match="16 are the least"):
        TokenFile(token_file(tmp_path, "secret"))


def test_sessions_are_few_and_end_by_themselves() -> None:
    clock = ManualClock()
    ended: list[str] = []
    kept = Sessions(clock, lambda session: ended.append(session.user))
    cookies = []
    for number in range(sessions.SESSIONS_MAX + 3):
        clock.advance(1000)
        cookies.append(kept.begin(f"u{number}", can_change=True, credentials=None)[0])
    assert len(kept) == sessions.SESSIONS_MAX and ended == ["u0", "u1", "u2"]
    assert kept.find(cookies[0]) is None and kept.find(cookies[-1]) is not None
    clock.advance(int(sessions.IDLE_SECONDS * 1000) + 1)
    assert kept.find(cookies[-1]) is None and len(kept) == 0


def test_requests_have_a_size(tmp_path: Path) -> None:
    async def run() -> None:
        async with dashboard_lab(tmp_path) as lab:
            browser = lab.browser
            form = {"content-type": "application/x-www-form-urlencoded", "content-length": str(1 << 30)}
            assert (await browser.request("POST", "/login", b"x", form)).status == 413
            assert (await browser.get("/api/topics", q="x" * 20_000)).status in (400, 414)
            many = urlencode([(f"f{number}", "1") for number in range(1000)]).encode()
            assert (await browser.request("POST", "/login", many, {"content-type": form["content-type"]})).status == 400
            text = {"content-type": "text/plain"}
            assert (await browser.request("POST", "/login", b"token=1", text)).status == 415

    asyncio.run(run())


_ACCESS = {
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "initAuthenticationUser": '{"username":"root","password":"root-secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"inner","secretKey":"inner-secret"}',
}


def test_where_the_cluster_asks_who_one_is_so_does_the_dashboard(tmp_path: Path) -> None:
    client = ClientOptions(access_key="root", secret_key="root-secret")

    async def run() -> None:
        async with dashboard_lab(tmp_path, broker_options=_ACCESS, client=client) as lab:
            browser = lab.browser
            assert (await browser.get("/api/overview")).status == 401
            assert (await browser.get("/api/live?page=overview")).status == 401
            assert "Pages are shown to those only who signed in." in (await browser.get("/login")).text
            for name, secret in (("root", "wrong-secret"), ("nobody", "root-secret"), ("root", "env:HOME")):
                assert (await browser.post_form("/login", access_key=name, secret_key=secret)).status == 401
            assert (await browser.post_form("/login", access_key="root", secret_key="root-secret")).status == 303
            overview = await browser.json("/api/overview")
            assert overview["cluster"]["access_control"] is True and overview["totals"]["topics"] is not None
            assert (await browser.act("topic.create", topic="made")).status == 403  # the token is missing
            users = (await browser.json("/api/access"))["users"]
            assert {row["user"] for row in users} == {"root", "inner"}
            assert "secret" not in json.dumps(users)

    asyncio.run(run())


def _sessions(lab: DashboardLab, user: str) -> list[Session]:
    return [session for session in lab.service.context.sessions.all() if session.user == user]


def test_actions_run_as_whoever_signed_in(tmp_path: Path) -> None:
    client = ClientOptions(access_key="root", secret_key="root-secret")

    async def run() -> None:
        async with (
            dashboard_lab(tmp_path, broker_options=_ACCESS, client=client) as lab,
            Admin(lab.broker.name_server, options=client) as admin,
        ):
            await admin.create_user(lab.broker.address, "guest", "guest-secret")
            browser = lab.browser
            fields = {"token": TOKEN, "access_key": "guest", "secret_key": "guest-secret"}
            assert (await browser.post_form("/login", **fields)).status == 303
            page = (await browser.get("/access")).text
            assert "unknown: the account lacks the permission" in page and "No users." not in page
            refused = await browser.act("topic.create", topic="made")
            assert refused.json()["failed"] and "made" not in await admin.list_topics()
            other = Browser(browser.url)
            fields = {"token": TOKEN, "access_key": "root", "secret_key": "root-secret"}
            assert (await other.post_form("/login", **fields)).status == 303
            assert (await other.act("topic.create", topic="made")).json()["failed"] == []
            assert "made" in await admin.list_topics()
            users = {line["user"] for line in lab.audit_lines() if "topic.create" in line["what"]}
            assert users == {"guest", "root"}
            guest = await lab.service.context.reader_of(next(iter(_sessions(lab, "guest"))))
            await browser.post_form("/logout")
            async with asyncio.timeout(10):
                while guest.is_running:
                    await asyncio.sleep(0.01)

    asyncio.run(run())
