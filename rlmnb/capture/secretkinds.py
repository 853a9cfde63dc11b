"""The kinds of secrets, each as a literal that must be there and a pattern that starts at it.

Every pattern runs from one place over a bounded stretch, or over a run that no second start can
lie in: the time is linear in the text, whatever it is. Nothing is compiled before its literal is
found. The last group that took part in a match is the secret.
"""

from rlmnb.capture.credible import (
    is_credible,
    is_placeholder,
    is_snowflake,
    is_user_and_password,
    kind_of_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    # Told the text and the match: whether it is a secret, or the kind of secret it is.
    Check = Callable[[str, re.Match[str]], "bool | str | None"]

# What may stand before a token besides a character that no token has: an escaped line break or
# character, an encoded one, a colour, the mark of a line in a diff.
_ESCAPED = (
    r"|(?<=[A-Fa-f0-9nrtm+-])"
    r"(?:(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9a-fA-F]{4})|(?<=\\x[0-9a-fA-F]{2})"
    r"|(?<=\[\dm)|(?<=\[\d\dm)|(?<=\[\d;\d\dm)|(?<=^[-+])|(?<=\\n[-+]))"
)
_EDGE = r"(?:(?<![A-Za-z0-9_])" + _ESCAPED + ")"
_DASHED_EDGE = r"(?:(?<![A-Za-z0-9_-])" + _ESCAPED + ")"
# Short literals occur in base64 by chance; there a slash or plus before them is no edge.
_FAR_EDGE = r"(?:(?<![A-Za-z0-9_+/=-])|(?<=[A-Za-z]=)" + _ESCAPED + ")"
_LETTERS = "[A-Za-z0-9]"
_WORD = r"[A-Za-z0-9_-]"
_OPEN = r"\\*[\"'`]?\]?\s{0,4}(?:=>|:=|=|:)\s{0,4}\\*[\"'`]?"


class Kind:
    """One kind of secret: where to look for it and how it is written."""

    __slots__ = ("_compiled", "anchors", "check", "folded", "name", "near", "offset", "pattern")

    def __init__(
        self,
        name: str,
        anchors: str,
        pattern: str,
        *,
        check: "Check | None" = None,
        folded: bool = False,
        near: str = "",
        offset: int = 0,
    ) -> None:
        self.name = name
        self.anchors = tuple(anchors.split(" "))
        self.pattern = pattern
        self.check = check
        self.folded = folded
        # Words like "token" are everywhere; one of these signs must follow before it counts.
        self.near = near
        self.offset = offset
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> "re.Pattern[str]":
        """The pattern, compiled when it is first needed."""
        if self._compiled is None:
            import re

            flags = re.MULTILINE | (re.IGNORECASE if self.folded else 0)
            self._compiled = re.compile(self.pattern, flags)
        return self._compiled


def _token(name: str, prefixes: str, body: str, *, edge: str = "") -> Kind:
    """Make a kind whose tokens begin with one of a few literals."""
    starts = "|".join(_escaped(prefix) for prefix in prefixes.split(" "))
    edge = edge or (_DASHED_EDGE if _WORD in body else _EDGE)
    return Kind(name, prefixes, f"{edge}((?:{starts}){body})")


def _escaped(literal: str) -> str:
    return "".join(letter if letter.isalnum() else "\\" + letter for letter in literal)


def _random(_: str, match: "re.Match[str]") -> bool:
    secret = match[match.lastindex or 0]
    return is_credible(secret) or (len(secret) > 30 and not is_placeholder(secret))


def _url_password(_: str, match: "re.Match[str]") -> bool:
    return len(match[1]) > 2 and not is_placeholder(match[1])


def _basic(_: str, match: "re.Match[str]") -> bool:
    return is_user_and_password(match[1])


def _snowflake(_: str, match: "re.Match[str]") -> bool:
    return is_snowflake(match[1].partition(".")[0])


def _signature(text: str, match: "re.Match[str]") -> bool:
    around = text[max(0, match.start() - 400) : match.end() + 400]
    return "sv=" in around or ("se=" in around and "sr=" in around)


def _in_cookie(text: str, match: "re.Match[str]") -> bool:
    line = text[max(0, match.start() - 1000) : match.start()].rpartition("\n")[2]
    return "cookie" in line.lower() and not is_placeholder(match[1])


def _in_curl(text: str, match: "re.Match[str]") -> bool:
    line = text[max(0, match.start() - 300) : match.start()].rpartition("\n")[2]
    return "curl" in line and not is_placeholder(match[1])


def _filled_in(_: str, match: "re.Match[str]") -> bool:
    return not is_placeholder(match[1])


def _after_login(text: str, match: "re.Match[str]") -> bool:
    before = text[max(0, match.start() - 12) : match.start()].rstrip()
    return before.endswith(("docker", "podman", "az", "registry")) and _filled_in(text, match)


def _pass(_: str, match: "re.Match[str]") -> bool:
    return is_credible(match[match.lastindex or 0], bare=match.lastindex == 2)


def _option(_: str, match: "re.Match[str]") -> "str | None":
    if is_credible(match[2], bare=True):
        return kind_of_name(match[1])
    return None


def _assigned(text: str, match: "re.Match[str]") -> "str | None":
    """Return the kind of an assigned value: its name says so, and so does the value."""
    before = text[max(0, match.start() - 60) : match.end("name")]
    name = before[len(before.rstrip(_NAME)) :]
    bare = match.lastindex == match.re.groupindex["bare"]
    value = match[match.lastindex or 0]
    # After two colons stands the name of a type.
    if before.endswith("::" + name) or not is_credible(value, bare=bare):
        return None
    return kind_of_name(name)


_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# What stands between the lines of a key: escaped line breaks, quotes, line numbers, diff marks.
_BETWEEN = r"(?:\\+[nrt]|[\s\"'`\\,>|#*+→…]|\d{1,6}(?=[\s→:|])|-(?!-))"
_KEY_BODY = (
    rf"{_BETWEEN}{{0,60}}+"
    rf"(?:(?:[A-Z][A-Za-z-]{{2,20}}:\ ?[^\n\\\"]{{1,100}}){_BETWEEN}{{1,60}}+){{0,6}}"
    rf"[A-Za-z0-9+/=]{{16,}}+(?:{_BETWEEN}{{1,60}}+[A-Za-z0-9+/=]{{16,}}+)*+"
    rf"(?:{_BETWEEN}{{1,60}}+=?[A-Za-z0-9+/]{{1,15}}+={{0,2}})?"
    rf"(?:{_BETWEEN}{{0,60}}+-----END [A-Z0-9 ]{{0,40}}-----)?"
)
# Options of a command before the one that matters, each with its value if it has one; and a value.
_OPTIONS = r"(?:\s{1,4}+-{1,2}[\w-]{1,30}+(?:(?:=|\s{1,2})[^\s-]\S{0,100}+)?+){0,8}?"
_WORD_GIVEN = r"[\"']?([^\s\"'\\$;&|<>-][^\s\"'\\;&|<>]{3,300}+)"
_ASSIGNMENT = (
    r"(?P<name>(?:password|passwd|passphrase|pwd|secret|token|credentials?|"
    r"(?:api|access|private|signing|encryption|master|auth)[_-]?key)"
    r"(?:[_-]?(?:key|value))?)(?:[_-]?(?:base|prod|live|dev|staging|\d{1,2}))?"
    r"\\*[\"'`]?\]?(?:\s?:\s?(?:str|string|&str|String))?"
    r"\s{0,4}(?:=>|:=|=(?!=)|:(?!:))\s{0,4}"
    r"(?:[rbu]{0,2}\\*(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\s\\]){8,8192}+)\\*(?P=quote)"
    r"|(?P<bare>[^\s\"'`\\;&|<>(){},\[\]]{8,}+)(?=[\"'`\\\s;&|,}]|\Z))"
)

PRIVATE = Kind(
    "private",
    "<private \\u003cprivate &lt;private",
    r"(?:<|\\u003c|&lt;)(/?)private(?:\s[^<>]{0,200})?(?:>|\\u003e|&gt;)",
    folded=True,
)
"""The tags around what its author wants nobody to keep; they nest, so they are not one match."""

KINDS = (
    Kind(
        "private-key",
        "-----BEGIN",
        rf"(-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----{_KEY_BODY})",
    ),
    _token("age-key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    Kind(
        "aws-access-key",
        "AKIA ASIA ABIA ACCA",
        rf"{_EDGE}(A(?:KI|SI|BI|CC)A[A-Z2-7]{{16}})(?![A-Za-z0-9_])",
    ),
    Kind(
        "aws-secret-key",
        "AKIA ASIA",
        rf"{_FAR_EDGE}A[KS]IA[A-Z2-7]{{16}}(?:[\s:,;|/\"'\\]|\\n){{1,6}}"
        r"((?=[a-z0-9/+]*[A-Z])[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    Kind(
        "aws-secret-key",
        "secret",
        rf"secret[_-]?(?:access[_-]?)?key{_OPEN}"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        folded=True,
        near="=:",
        check=_random,
    ),
    _token("google-api-key", "AIza", rf"{_WORD}{{35}}(?!{_WORD})", edge=_EDGE),
    _token("google-oauth", "GOCSPX-", rf"{_WORD}{{28}}", edge=_EDGE),
    _token("google-oauth", "ya29.", rf"{_WORD}{{20,}}+", edge=_EDGE),
    Kind("google-oauth", "1//0", rf"{_FAR_EDGE}(1//0{_WORD}{{40,}}+)"),
    Kind("azure-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    Kind("azure-key", "SharedAccessKey=", r"SharedAccessKey=([A-Za-z0-9+/]{42,44}={0,2})"),
    Kind("azure-signature", "sig=", r"(?<=[?&;])sig=([A-Za-z0-9%+/=]{43,120}+)", check=_signature),
    Kind(
        "azure-client-secret",
        "Q~",
        rf"(?:(?<![A-Za-z0-9_~.-]){_ESCAPED})([A-Za-z0-9_~.-]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}+)",
        offset=-4,
    ),
    _token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", rf"{_LETTERS}{{36,}}+"),
    _token("github-token", "github_pat_", r"[A-Za-z0-9_]{60,}+"),
    _token(
        "gitlab-token",
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glimt- glagent- gloas-",
        rf"{_WORD}{{20,}}+(?:\.[0-9a-z]{{2}}\.[0-9a-z]{{9}})?",
        edge=_EDGE,
    ),
    _token(
        "slack-token",
        "xoxa- xoxb- xoxp- xoxo- xoxs- xoxr- xoxe- xoxc- xoxd-",
        r"[A-Za-z0-9%-]{16,}+",
    ),
    _token("slack-token", "xapp- xoxe.", r"[A-Za-z0-9.-]{20,}+"),
    Kind(
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{20,}+)",
    ),
    _token("stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_", rf"{_LETTERS}{{16,}}+"),
    _token("stripe-key", "whsec_", r"[A-Za-z0-9+/=]{32,}+"),
    _token("anthropic-key", "sk-ant-", rf"{_WORD}{{24,}}+", edge=_EDGE),
    _token(
        "openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", rf"{_WORD}{{24,}}+", edge=_EDGE
    ),
    _token("openrouter-key", "sk-or-v1-", r"[0-9a-f]{64}"),
    Kind(
        "openai-key",
        "sk-",
        rf"{_DASHED_EDGE}(sk-(?=[A-Za-z]*\d){_LETTERS}{{32,}}+)(?!{_WORD})",
    ),
    _token("huggingface-token", "hf_ api_org_", rf"{_LETTERS}{{34,}}+(?![A-Za-z0-9_])"),
    _token("npm-token", "npm_", rf"{_LETTERS}{{36}}(?![A-Za-z0-9_])"),
    _token("pypi-token", "pypi-AgE", rf"{_WORD}{{50,}}+", edge=_EDGE),
    _token("rubygems-key", "rubygems_", r"[0-9a-f]{48}"),
    _token("crates-token", "cio", rf"{_LETTERS}{{32}}(?![A-Za-z0-9_])", edge=_FAR_EDGE),
    _token("docker-token", "dckr_pat_ dckr_oat_", rf"{_WORD}{{27,}}+", edge=_EDGE),
    Kind("sendgrid-key", "SG.", rf"{_EDGE}(SG\.{_WORD}{{22}}\.{_WORD}{{43}})"),
    _token("twilio-key", "SK", r"[0-9a-f]{32}(?![A-Za-z0-9_])", edge=_FAR_EDGE),
    Kind(
        "twilio-token",
        "twilio",
        rf"twilio[\w-]{{0,24}}+{_OPEN}([0-9a-f]{{32}})(?![A-Za-z0-9])",
        folded=True,
    ),
    _token("mailgun-key", "key-", r"[0-9a-f]{32}(?![A-Za-z0-9])", edge=_DASHED_EDGE),
    _token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),
    _token("databricks-token", "dapi", r"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])", edge=_FAR_EDGE),
    Kind("telegram-token", ":AA", rf"(?<=\d{{8}}):(AA{_WORD}{{33}})(?!{_WORD})"),
    Kind(
        "discord-token",
        "MT Mj Mz ND NT Nj Nz OD OT",
        rf"{_DASHED_EDGE}([MNO]{_LETTERS}{{22,27}}\.{_WORD}{{6}}\.{_WORD}{{27,45}})(?!{_WORD})",
        check=_snowflake,
    ),
    Kind("discord-webhook", "/api/webhooks/", rf"/api/webhooks/\d{{15,21}}/({_WORD}{{40,}}+)"),
    _token("shopify-token", "shpat_ shpca_ shppa_ shpss_", r"[0-9a-fA-F]{32}"),
    _token("square-token", "sq0atp- sq0csp- sq0idp-", rf"{_WORD}{{22,43}}+"),
    Kind(
        "square-token",
        "EAAA",
        rf"{_FAR_EDGE}(EAAA{_WORD}{{60}})(?![A-Za-z0-9_+/=-])",
        check=_random,
    ),
    _token("heroku-key", "HRKU-", rf"{_WORD}{{30,}}+"),
    Kind("heroku-key", "heroku", rf"heroku[\w-]{{0,24}}+{_OPEN}({_UUID})(?!{_WORD})", folded=True),
    _token("grafana-token", "glsa_ glc_", r"[A-Za-z0-9_+/=]{32,}+"),
    _token("linear-key", "lin_api_ lin_oauth_", rf"{_LETTERS}{{32,}}+"),
    _token("notion-token", "ntn_ secret_", rf"{_LETTERS}{{43,50}}+(?![A-Za-z0-9_])"),
    _token("vault-token", "hvs. hvb. hvr.", rf"{_WORD}{{24,}}+", edge=_EDGE),
    Kind("terraform-token", ".atlasv1.", rf"(?<={_LETTERS}{{14}})(\.atlasv1\.{_WORD}{{60,}}+)"),
    _token("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa.", r"[A-Za-z0-9._-]{40,}+"),
    _token("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_.-]{32,}+"),
    _token("newrelic-key", "NRAK-", r"[A-Z0-9]{27}"),
    _token("replicate-token", "r8_", rf"{_LETTERS}{{37}}(?![A-Za-z0-9_])", edge=_FAR_EDGE),
    _token("groq-key", "gsk_", rf"{_LETTERS}{{48,}}+"),
    _token("xai-key", "xai-", rf"{_LETTERS}{{70,}}+"),
    _token("perplexity-key", "pplx-", rf"{_LETTERS}{{40,}}+"),
    _token("supabase-token", "sbp_ sb_secret_", r"[A-Za-z0-9_-]{30,}+"),
    _token("postman-key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    _token("atlassian-token", "ATATT3 ATCTT3 ATBB", r"[A-Za-z0-9_=-]{28,}+", edge=_FAR_EDGE),
    _token("sentry-token", "sntrys_ sntryu_", r"[A-Za-z0-9_+/=-]{40,}+"),
    _token("figma-token", "figd_", rf"{_WORD}{{38,}}+", edge=_EDGE),
    _token("alibaba-key", "LTAI", rf"{_LETTERS}{{20}}(?![A-Za-z0-9_+/=-])", edge=_FAR_EDGE),
    _token("fly-token", "fm1r_ fm2_ fo1_", r"[A-Za-z0-9_+/=,-]{40,}+"),
    _token("airtable-token", "pat", rf"{_LETTERS}{{14}}\.[0-9a-f]{{64}}(?![A-Za-z0-9])"),
    _token("brevo-key", "xkeysib-", rf"[0-9a-f]{{64}}-{_LETTERS}{{16}}"),
    _token("buildkite-token", "bkua_", r"[0-9a-f]{40}"),
    _token("circleci-token", "CCIPAT_ CCIPRJ_", rf"{_LETTERS}{{22}}_[0-9a-f]{{40}}"),
    _token("clojars-token", "CLOJARS_", r"[0-9a-z]{60}"),
    _token("cloudflare-key", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{146}"),
    _token("dynatrace-token", "dt0c01. dt0s16.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    _token("easypost-key", "EZAK EZTK", rf"{_LETTERS}{{54}}(?![A-Za-z0-9_])"),
    _token("elevenlabs-key", "sk_", r"[0-9a-f]{48}(?![A-Za-z0-9_])"),
    _token("hubspot-token", "pat-na1- pat-na2- pat-eu1-", rf"{_UUID}", edge=_DASHED_EDGE),
    _token("langfuse-key", "sk-lf-", rf"{_UUID}", edge=_DASHED_EDGE),
    _token("langsmith-key", "lsv2_pt_ lsv2_sk_", r"[0-9a-f]{32}_[0-9a-f]{10}"),
    _token("mapbox-token", "sk.eyJ", rf"{_WORD}{{40,}}+\.{_WORD}{{20,24}}+", edge=_EDGE),
    _token("neon-key", "napi_", r"[a-z0-9]{64}"),
    _token("netlify-token", "nfp_", rf"{_LETTERS}{{36}}(?![A-Za-z0-9_])"),
    _token("onepassword-token", "ops_eyJ", r"[A-Za-z0-9+/_-]{200,}+={0,2}"),
    _token("pinecone-key", "pcsk_", rf"{_LETTERS}{{5,8}}_{_LETTERS}{{50,}}+"),
    _token(
        "plaid-token",
        "access-production- access-sandbox- access-development-",
        rf"{_UUID}",
        edge=_DASHED_EDGE,
    ),
    _token("prefect-key", "pnu_ pnb_", rf"{_LETTERS}{{36}}(?![A-Za-z0-9_])"),
    _token("pulumi-token", "pul-", r"[0-9a-f]{40}(?![A-Za-z0-9])", edge=_DASHED_EDGE),
    _token("readme-key", "rdme_", r"[0-9a-z]{70}"),
    _token("scalingo-token", "tk-us-", rf"{_WORD}{{48}}(?!{_WORD})"),
    _token("sonar-token", "sqp_ squ_ sqa_", r"[0-9a-f]{40}(?![A-Za-z0-9_])"),
    _token("tailscale-key", "tskey-", rf"[a-z]{{3,8}}-{_LETTERS}{{10,}}+-{_LETTERS}{{20,}}+"),
    _token("tavily-key", "tvly-", rf"(?:dev-|prod-)?{_LETTERS}{{32}}(?![A-Za-z0-9_])"),
    _token("typeform-token", "tfp_", rf"{_WORD}{{40,}}+"),
    _token("vercel-token", "vercel_blob_rw_", r"[A-Za-z0-9_]{40,}+"),
    Kind(
        "jwt",
        "eyJ",
        rf"(?:(?<![A-Za-z0-9_])|(?<=(?:sk|pk)\.){_ESCAPED})"
        rf"(eyJ{_WORD}{{8,8192}}+\.(?:eyJ{_WORD}{{8,}}+(?:\.{_WORD}*+){{0,3}}"
        rf"|{_WORD}*+\.{_WORD}{{6,}}+(?:\.{_WORD}*+){{0,2}}))",
    ),
    Kind(
        "url-password",
        "://",
        r"://[^\s:/?#@\"'<>\\]{0,200}+:([^\s/?#\"'<>`\\]{1,300})@(?=[\w\[.$-])",
        check=_url_password,
    ),
    Kind(
        "authorization",
        "basic",
        r"basic\s{1,4}([A-Za-z0-9+/]{6,4096}+={0,2})",
        folded=True,
        check=_basic,
    ),
    Kind(
        "authorization",
        "bearer",
        r"bearer(?:\s|%20|\\t){1,4}([A-Za-z0-9._~+/=-]{12,65536}+)",
        folded=True,
        check=_random,
    ),
    Kind(
        "authorization",
        "authorization",
        rf"authorization{_OPEN}(?:(?:token|digest|apikey|key|negotiate|ntlm|bot)\s{{1,4}})?"
        r"([A-Za-z0-9._~+/=-]{12,65536}+)",
        near="=:",
        folded=True,
        check=_random,
    ),
    Kind(
        "authorization",
        '"auth',
        r'"auth\\*"\s{0,4}:\s{0,4}\\*"([A-Za-z0-9+/]{8,4096}+={0,2})\\*"',
        check=_basic,
    ),
    Kind(
        "authorization",
        "_auth",
        r"_auth\s{0,2}=\s{0,2}\\*\"?([A-Za-z0-9+/]{8,4096}+={0,2})",
        near="=",
        check=_basic,
    ),
    Kind(
        "session",
        "sessionid= session= sid= sessid= session_id= session-id= session-token= auth="
        " jwt= _session=",
        r"[a-z_-]+=\\*\"?([^\s;,\"'\\]{12,4096}+)",
        folded=True,
        check=_in_cookie,
    ),
    Kind(
        "password",
        "-u --user --proxy-user",
        r"-(?:u|-user|-proxy-user)[\s=]{1,3}\\*[\"']?[\w.@+-]{1,100}:([^\s\"'\\]{3,300})",
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
        "_pass 'pass \"pass",
        rf"[_'\"]pass{_OPEN}(?<=[\"'`])([^\s\"'`\\]{{8,300}}+)(?=[\"'`\\])"
        rf"|[_'\"]pass{_OPEN}(?<![\"'`])([^\s\"'`\\;&|<>(){{}},\[\]]{{8,300}}+)(?=[\\\s;&|,}}]|\Z)",
        folded=True,
        near="=:",
        check=_pass,
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
        "secret",
        "password passwd passphrase pwd secret token credential api_key apikey api-key"
        " access_key access-key accesskey private_key privatekey signing_key encryption_key"
        " master_key auth_key",
        _ASSIGNMENT,
        folded=True,
        near="=:",
        check=_assigned,
    ),
)
