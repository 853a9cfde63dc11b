"""Passwords that are given to commands, and those in files whose lines have no names for them."""

from rlmnb.capture.credible import (
    is_credible,
    is_password,
    is_placeholder,
    is_plain_password,
    kind_of_name,
)
from rlmnb.capture.secretpatterns import Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re


def _in_curl(text: str, match: "re.Match[str]") -> bool:
    line = text[max(0, match.start() - 300) : match.start()].rpartition("\n")[2]
    return "curl" in line and _filled_in(text, match)


def _filled_in(_: str, match: "re.Match[str]") -> bool:
    return not is_placeholder(match[match.lastindex or 0])


def _before_in_line(text: str, at: int) -> "str | None":
    """Return what stands before a place in its line, None if that is more than a name.

    In text inside of text a line begins after an escaped line break.
    """
    line = text[max(0, at - 100) : at].replace("\\n", "\n").rpartition("\n")
    return line[2] if line[1] or at <= 100 else None


def _in_pgpass(text: str, match: "re.Match[str]") -> bool:
    host = (_before_in_line(text, match.start()) or "").lstrip(" \"'")
    return not host.strip(_HOST) and host != "" and _filled_in(text, match)


def _in_sql(text: str, match: "re.Match[str]") -> bool:
    line = text[max(0, match.start() - 300) : match.start()].lower()
    told = ("user ", "role ", "login ", " to "), ("create ", "alter ", "grant ")
    return all(any(word in line for word in words) for words in told) and _filled_in(text, match)


def _in_redis(text: str, match: "re.Match[str]") -> bool:
    before = _before_in_line(text, match.start())
    alone = before is not None and before.strip().lower() in ("", "config set")
    return alone and _filled_in(text, match)


def _after_login(text: str, match: "re.Match[str]") -> bool:
    before = text[max(0, match.start() - 12) : match.start()].rstrip()
    return before.endswith(("docker", "podman", "az", "registry")) and _filled_in(text, match)


def _option(text: str, match: "re.Match[str]") -> "str | None":
    kind, value = kind_of_name(match[1]), match[2]
    if is_credible(value, bare=True) or (kind == "password" and is_password(value)):
        return kind
    given = text[match.end(1) : match.start(2)].strip("\\\"'") == "="
    return kind if kind == "password" and given and is_plain_password(value) else None


# Options of a command before the one that matters, each with its value if it has one; and a value.
_OPTIONS = r"(?:\s{1,4}+-{1,2}[\w-]{1,30}+(?:(?:=|\s{1,2})[^\s-]\S{0,100}+)?+){0,8}?"
_WORD_GIVEN = (
    r"\\*(?:[\"']([^\"'\\\n]{4,300}+)(?=\\*[\"'])"
    r"|([^\s\"'\\$;&|<>-][^\s\"'\\;&|<>]{3,300}+))"
)
# What else a command was told before that; and the word that a command is.
_ELSE = r"[^\n;|&\\]{0,200}?"
_COMMAND = r"(?:(?<![\w./-])|(?<=\\n))"
_HOST = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._*-"
_CRYPTED = r"[./A-Za-z0-9]"

GIVEN = (
    Kind(
        "password",
        "-u --user --proxy-user",
        r"-(?:u[\s=]{0,3}|-(?:proxy-)?user[\s=]{1,3})\\*(?:[\"'][\w.@+-]{1,100}:([^\"'\\\n]{3,300}+)"
        r"|[\w.@+-]{1,100}:([^\s\"'\\]{3,300}))",
        near=":",
        check=_in_curl,
    ),
    Kind(
        "password",
        "sshpass redis-cli",
        rf"(?:sshpass{_OPTIONS}\s{{1,4}}-p\s{{0,2}}|redis-cli{_OPTIONS}\s{{1,4}}-a\s{{1,2}})"
        rf"{_WORD_GIVEN}",
        near="-",
        check=_filled_in,
    ),
    Kind(
        "password",
        "pass:",
        r"(?:(?<=-passin )|(?<=-passout )|(?<=-pass ))pass:([^\s\"'\\;&|<>$]{4,300}+)",
        check=_filled_in,
    ),
    Kind(
        "password",
        "-storepass -keypass",
        rf"-(?:store|key)pass\s{{1,4}}{_WORD_GIVEN}",
        check=_filled_in,
    ),
    Kind(
        "password",
        "mongo ldapsearch htpasswd",
        rf"(?:mongo(?:sh|dump|restore|export|import)?{_OPTIONS}\s{{1,4}}-p\s{{1,2}}"
        rf"|ldapsearch{_OPTIONS}\s{{1,4}}-w\s{{1,2}}|htpasswd{_OPTIONS}\s{{1,4}}-\w{{0,4}}b\w{{0,4}}\s{{1,2}}"
        rf"[^\s\"']{{1,200}}\s{{1,2}}[\w.@-]{{1,100}}\s{{1,2}}){_WORD_GIVEN}",
        near="-",
        check=_filled_in,
    ),
    Kind(
        "password",
        "mysql",
        # An option that begins with two dashes is a long one, and told by its name.
        rf"mysql(?:dump|admin|import|check|show)?{_OPTIONS}\s{{1,4}}-p(?!-){_WORD_GIVEN}",
        near="-",
        check=_filled_in,
    ),
    Kind(
        "password",
        "login",
        rf"login{_OPTIONS}\s{{1,4}}-p[\s=]{{1,2}}{_WORD_GIVEN}",
        near="-",
        check=_after_login,
    ),
    Kind(
        "password",
        "machine",
        r"machine\s{1,9}\S{1,200}\s{1,9}login\s{1,9}\S{1,200}\s{1,9}password\s{1,9}([^\s\"'\\]{3,300})",
        check=_filled_in,
    ),
    Kind(
        "password",
        "-password -passwd -token -secret -api-key -access-key -secret-key -passphrase",
        r"(?<=[\w-])-(password|passwd|token|api-key|access-key|secret-key|secret|passphrase)"
        r"[ \t=]{1,4}\\*[\"']?([^\s\"'\\;&|<>$]{8,}+)",
        folded=True,
        check=_option,
    ),
    Kind(
        "password",
        "zip",
        rf"(?:{_COMMAND}|(?<=un)(?<![\w./-]un)|(?<=\\nun))zip(?=\s){_ELSE}\s-P\s{{1,2}}{_WORD_GIVEN}",
        near="-",
        check=_filled_in,
    ),
    Kind(
        "password",
        "7z",
        rf"{_COMMAND}7z[ar]?\s{{1,2}}[a-z]{{1,3}}(?=\s){_ELSE}\s-p{_WORD_GIVEN}",
        near="-",
        check=_filled_in,
    ),
    Kind(
        "password",
        "openssl",
        rf"openssl\s(?:enc|[a-z]{{2,9}}-?\d[\w-]{{0,20}})(?=\s){_ELSE}\s-[kK]\s{{1,2}}{_WORD_GIVEN}",
        near="-",
        check=_filled_in,
    ),
    Kind(
        "password",
        "gpg",
        rf"gpg2?(?=\s){_ELSE}\s--passphrase[\s=]{{1,2}}{_WORD_GIVEN}",
        near="-",
        check=_filled_in,
    ),
    Kind(
        "password",
        "sqlplus oracle:thin:",
        r"(?:sqlplus(?:\s{1,2}-\w{1,10}){0,4}\s{1,2}\\*[\"']?|oracle:thin:)"
        r"\w[^\s/@\"'\\]{0,100}/\\*[\"']?([^\s@\"'\\]{3,100}+)\\*[\"']?@",
        near="/",
        check=_filled_in,
    ),
    Kind(
        "password",
        "echo",
        rf"{_COMMAND}echo\s{{1,2}}(?:-\w{{1,3}}\s{{1,2}})?{_WORD_GIVEN}(?=\\*[\"']?\s{{0,2}}\|\s{{0,2}}"
        r"sudo\s{1,2}(?:-[A-Za-z]{1,4}\s{1,2}){0,4}-[A-Za-z]{0,3}S)",
        near="|",
        check=_filled_in,
    ),
    Kind(
        "password",
        "echo",
        rf"{_COMMAND}echo\s{{1,2}}(?:-\w{{1,3}}\s{{1,2}})?\\*[\"']?[\w.-]{{1,64}}:([^\n\"'\\|]{{3,200}}?)"
        r"\\*[\"']?\s{0,2}\|\s{0,2}(?:sudo\s{1,2})?chpasswd",
        near="|",
        check=_filled_in,
    ),
    Kind(
        "password",
        "identified",
        r"identified\s{1,4}(?:with\s{1,4}\S{1,60}\s{1,4})?by\s{1,4}(?:password\s{1,4})?"
        r"\\*['\"]([^'\"\\\s]{4,200}+)",
        folded=True,
        near="'\"",
        check=_in_sql,
    ),
    Kind(
        "password",
        "password",
        r"password\s{1,4}\\*'([^'\\\s]{4,200}+)\\*'",
        folded=True,
        near="'",
        check=_in_sql,
    ),
    Kind(
        "password",
        "requirepass masterauth",
        r"(?:requirepass|masterauth)\s{1,4}\\*\"?([^\s\"'\\]{4,512}+)(?=\\|[\"']|\s*$)",
        check=_in_redis,
    ),
    # A line of PostgreSQL's: host, port, database, user, password.
    Kind(
        "password",
        ":5432: :5433: :6432: :*:",
        r":(?:\d{2,5}|\*):[\w.*-]{1,100}:[\w.@*+-]{1,100}:([^\s:\\\"']{3,200}+)(?=\\+n|\\*[\"']|\s*$)",
        check=_in_pgpass,
    ),
    Kind(
        "password-hash",
        "$6$ $5$ $1$ $apr1$ $y$ $gy$ $2a$ $2b$ $2y$ $argon2i $argon2d",
        rf"(\$(?:6\$(?:rounds=\d{{1,9}}\$)?{_CRYPTED}{{1,16}}\${_CRYPTED}{{86}}"
        rf"|5\$(?:rounds=\d{{1,9}}\$)?{_CRYPTED}{{1,16}}\${_CRYPTED}{{43}}"
        rf"|(?:1|apr1)\${_CRYPTED}{{1,8}}\${_CRYPTED}{{22}}"
        rf"|g?y\${_CRYPTED}{{1,20}}\${_CRYPTED}{{1,86}}\${_CRYPTED}{{43}}"
        rf"|2[aby]\$\d\d\${_CRYPTED}{{53}}"
        r"|argon2(?:id|i|d)\$v=\d{1,3}\$m=\d{1,9},t=\d{1,4},p=\d{1,4}"
        r"\$[A-Za-z0-9+/]{8,100}\$[A-Za-z0-9+/]{16,200}))(?![A-Za-z0-9/])",
    ),
)
