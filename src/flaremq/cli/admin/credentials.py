"""Who a command is towards a cluster: the account that signs its requests, and whether connections are encrypted.

Every command that talks to a cluster takes the same options, and so does ``flaremq`` itself, before the command. What
they do not say the environment does, and then RocketMQ's own ``tools.yml``.

A secret on the command line is readable by everybody who can list processes, for as long as the command runs, and
Python cannot wipe it. So ``--secret-key`` takes the place where the secret is found, and refuses a secret.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from flaremq.cli.failure import note_connections
from flaremq.cli.parameters import GIVEN
from flaremq.client.options import ClientOptions
from flaremq.errors import InvalidArgumentError
from flaremq.secret_place import FROM_ENVIRONMENT, FROM_FILE, check_private, names_a_secret, secret_value

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=ClientOptions)

ACCESS_KEY_VARIABLE: Final = "FLAREMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "FLAREMQ_SECRET_KEY"
SECURITY_TOKEN_VARIABLE: Final = "FLAREMQ_SECURITY_TOKEN"
_TLS_FILES: Final = (  # name of the option, argument of ClientOptions, environment variable
    ("tls_trust", "tls_trust_path", "FLAREMQ_TLS_TRUST"),
    ("tls_cert", "tls_cert_path", "FLAREMQ_TLS_CERT"),
    ("tls_key", "tls_key_path", "FLAREMQ_TLS_KEY"),
    ("tls_key_password_file", "tls_key_password_file", "FLAREMQ_TLS_KEY_PASSWORD_FILE"),
)
_TOOLS_YML: Final = os.path.join("conf", "tools.yml")  # below $ROCKETMQ_HOME
_PROMPT: Final = "-"

# name, flag, metavar, help
_TEXTS: Final = (
    ("access_key", "--access-key", "NAME", f"The account that signs requests.  [default: ${ACCESS_KEY_VARIABLE}]"),
    (
        "secret_key",
        "--secret-key",
        "WHERE",
        f"Where its secret is: env:NAME, file:PATH, or - to be asked.  [default: ${SECRET_KEY_VARIABLE}]",
    ),
    ("secret_key_file", "--secret-key-file", "PATH", "The same as --secret-key file:PATH."),
    ("tools_yml", "--tools-yml", "PATH", "accessKey and secretKey as RocketMQ's tools keep them."),
    (
        "tls_trust",
        "--tls-trust",
        "PATH",
        "Certificates (PEM) one of which signed the servers'; implies --tls.  [default: $FLAREMQ_TLS_TRUST]",
    ),
    (
        "tls_cert",
        "--tls-cert",
        "PATH",
        "Certificate to show to servers that ask for one; implies --tls.  [default: $FLAREMQ_TLS_CERT]",
    ),
    ("tls_key", "--tls-key", "PATH", "Its private key.  [default: $FLAREMQ_TLS_KEY]"),
    (
        "tls_key_password_file",
        "--tls-key-password-file",
        "PATH",
        "File with the key's password, if it has one.  [default: $FLAREMQ_TLS_KEY_PASSWORD_FILE]",
    ),
)


def credential_parameters(*, hidden: bool) -> list[click.Option]:
    """The options, for a command that is built; what they say is kept in the context."""
    parameters = [
        click.Option([name, flag], metavar=metavar, help=text, hidden=hidden, expose_value=False, callback=_keep)
        for name, flag, metavar, text in _TEXTS
    ]
    tls = ["tls", "--tls"]
    text = "Encrypt all connections."
    parameters.append(
        click.Option(tls, is_flag=True, default=None, help=text, hidden=hidden, expose_value=False, callback=_keep)
    )
    return parameters


def credential_options(command: F) -> F:
    """The same as a decorator. Not in the help of each command: that of ``flaremq`` has them."""
    function: Any = command
    function.__click_params__ = [*credential_parameters(hidden=True), *getattr(function, "__click_params__", [])]
    return command


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is None:
        return
    if parameter.name == "secret_key" and value != _PROMPT and not names_a_secret(value):
        raise click.UsageError(
            "--secret-key takes no secret, because everybody could read it in the list of processes: write "
            f"env:NAME, file:PATH or - to be asked, or set {SECRET_KEY_VARIABLE}.",
            context,
        )
    context.meta.setdefault(GIVEN, {})[parameter.name] = value


def client_settings() -> dict[str, Any]:
    """What the command line, the environment and ``tools.yml`` say, as arguments of ``ClientOptions``.

    A secret that was asked for or read is in it as it is; one that has a place of its own is named by that place.
    """
    context = click.get_current_context(silent=True)
    given: dict[str, Any] = {} if context is None else context.meta.get(GIVEN, {})
    settings: dict[str, Any] = {}
    for name, argument, variable in _TLS_FILES:
        path = given.get(name) or os.environ.get(variable)
        if path:
            settings[argument] = path
    if given.get("tls") or settings:
        settings["use_tls"] = True
    account = _account(given)
    note_connections(are_signed="access_key" in account, are_encrypted="use_tls" in settings)
    return settings | account


def client_options(kind: type[C], **more: Any) -> C:
    """Options of a client that is who the command line says."""
    return kind(**client_settings(), **more)


def pipeline_settings() -> dict[str, str]:
    """The same as options of ``format("flaremq")``, for programs in other processes: what Spark starts inherits our
    environment, so a secret that has no place of its own is put there."""
    settings = client_settings()
    for name, variable in (("secret_key", SECRET_KEY_VARIABLE), ("security_token", SECURITY_TOKEN_VARIABLE)):
        if name in settings and not names_a_secret(settings[name]):
            os.environ[variable] = settings[name]
            settings[name] = FROM_ENVIRONMENT + variable
    keys = {
        "access_key": "accessKey",
        "secret_key": "secretKey",
        "security_token": "securityToken",
        "use_tls": "useTLS",
        "tls_trust_path": "tlsTrustPath",
        "tls_cert_path": "tlsCertPath",
        "tls_key_path": "tlsKeyPath",
        "tls_key_password_file": "tlsKeyPasswordFile",
    }
    return {keys[name]: "true" if value is True else value for name, value in settings.items()}


def secret_argument(value: str, what: str) -> str:
    """A secret that is part of an order, such as a new user's password; ``-`` reads it from stdin."""
    return _asked(what) if value == _PROMPT else secret_value(value, what)


def _account(given: dict[str, Any]) -> dict[str, str]:
    access_key = given.get("access_key") or os.environ.get(ACCESS_KEY_VARIABLE, "")
    secret = _secret_place(given)
    if not access_key and not secret:
        access_key, secret = _of_tools_yml(given.get("tools_yml"))
    account = {"access_key": access_key, "secret_key": secret}
    if access_key and os.environ.get(SECURITY_TOKEN_VARIABLE):
        account["security_token"] = FROM_ENVIRONMENT + SECURITY_TOKEN_VARIABLE
    return {name: value for name, value in account.items() if value}


def _secret_place(given: dict[str, Any]) -> str:
    place: str = given.get("secret_key", "")
    if "secret_key_file" in given:
        if place:
            raise InvalidArgumentError("both --secret-key and --secret-key-file are given; keep one of them")
        return FROM_FILE + str(given["secret_key_file"])
    if place == _PROMPT:
        place = given["secret_key"] = _asked("secret key")  # once, however many clients a command makes
    return place or (FROM_ENVIRONMENT + SECRET_KEY_VARIABLE if os.environ.get(SECRET_KEY_VARIABLE) else "")


def _asked(what: str) -> str:
    """A secret that a person types unseen, or that a pipe brings."""
    if sys.stdin.isatty():
        secret = str(click.prompt(what.capitalize(), hide_input=True, err=True))
    else:
        secret = sys.stdin.readline().strip()
    if not secret:
        raise InvalidArgumentError(f"the {what} is to come from stdin, where there is none")
    return secret


def _of_tools_yml(path: str | None) -> tuple[str, str]:
    """``accessKey`` and ``secretKey`` of the file that was named, or of RocketMQ's home, if it has one."""
    if path is None:
        home = os.environ.get("ROCKETMQ_HOME")
        path = os.path.join(home, _TOOLS_YML) if home else None
        if path is None or not os.path.isfile(path):
            return "", ""
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            found = yaml.safe_load(file)
    except OSError as error:
        raise InvalidArgumentError(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, ValueError):  # its text could show the secret
        raise InvalidArgumentError(f"{path} is no YAML") from None
    if found is None:
        return "", ""
    if not isinstance(found, dict):
        raise InvalidArgumentError(f"{path} has no accessKey and secretKey")
    access_key, secret_key = (str(found.get(name) or "").strip() for name in ("accessKey", "secretKey"))
    if bool(access_key) != bool(secret_key):
        raise InvalidArgumentError(f"{path} has only one of accessKey and secretKey")
    if secret_key:
        check_private(mode, path, "secretKey")
    return access_key, secret_key
