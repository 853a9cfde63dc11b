"""The kinds of secrets: tokens of services, and what only its surroundings tell."""

from rlmnb.capture.credible import (
    is_credible,
    is_hex,
    is_password,
    is_placeholder,
    is_plain_password,
    is_private_key,
    is_snowflake,
    is_user_and_password,
    is_uuid,
    is_word_for_password,
    kind_of_name,
    kind_of_value,
)
from rlmnb.capture.passwords import GIVEN
from rlmnb.capture.secretpatterns import (
    DASHED_EDGE,
    EDGE,
    ESCAPED,
    FAR_EDGE,
    LETTERS,
    OPEN,
    UUID,
    WORD,
    Kind,
)
from rlmnb.capture.servicetokens import TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re


def _random(_: str, match: "re.Match[str]") -> bool:
    secret = match[match.lastindex or 0]
    return is_credible(secret) or (len(secret) > 30 and not is_placeholder(secret))


def _varied(_: str, match: "re.Match[str]") -> bool:
    secret = match[match.lastindex or 0]
    return secret.lower() != secret != secret.upper() and not secret.isalpha()


def _in_header(text: str, match: "re.Match[str]") -> bool:
    """Tell whether a header has a credential and not code: after a scheme a digit is enough."""
    value = match[2]
    if match[1] is None or text[match.end() : match.end() + 1] in ("(", "["):
        return _random(text, match)
    return not value.isalpha() and any(map(str.isdigit, value)) and not is_placeholder(value)


def _of_digest(text: str, match: "re.Match[str]") -> bool:
    line = text[max(0, match.start() - 1000) : match.start()].rpartition("\n")[2]
    return "digest" in line.lower()


def _encoded_key(_: str, match: "re.Match[str]") -> bool:
    return is_private_key(match[1])


def _of_key(text: str, match: "re.Match[str]") -> bool:
    return "kty" in text[max(0, match.start() - 4000) : match.end() + 4000]


def _in_tag(_: str, match: "re.Match[str]") -> bool:
    if match[1].lower() in ("password", "passwd", "passphrase"):
        return is_password(match[2]) or is_plain_password(match[2])
    return is_credible(match[2])


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


def _any_cookie(_: str, match: "re.Match[str]") -> bool:
    """Tell whether a cookie of whatever name is one that lets somebody in: it looks random."""
    value = match[1]
    if is_placeholder(value) or not value.isascii():
        return False
    return is_credible(value, bare=True) or is_uuid(value) or (len(value) > 15 and is_hex(value))


def _pass(_: str, match: "re.Match[str]") -> bool:
    return is_credible(match[match.lastindex or 0], bare=match.lastindex == 2)


def _assigned(text: str, match: "re.Match[str]") -> "str | None":
    """Return the kind of an assigned value: its name says so, and so does the value."""
    before = text[max(0, match.start() - 60) : match.end("name")]
    around = before.rstrip(_NAME)
    # The first letter may be what an escaped line break or tab ends with.
    name = before[len(around) + (around.endswith("\\") and before[len(around)] in "nrt") :]
    value = match[match.lastindex or 0]
    # After two colons stands the name of a type.
    if before.endswith("::" + name):
        return None
    kind = kind_of_name(name)
    plain = kind == "password" and is_plain_password(value)
    if match.lastindex != match.re.groupindex["bare"]:
        in_json = text[match.end("name") : match.end("name") + 8].lstrip("\\").startswith('"')
        beside = plain and in_json and _account_before(text, match, '"')
        return kind if beside else kind_of_value(name, value)
    between = text[match.end("name") : match.start("bare")]
    if plain and (_is_setting(text, match, between) or _in_connection(text, match, between)):
        return kind
    if name.isupper() and between == "=":
        # In an environment every value is bare, and no code.
        simple = kind == "password" and is_word_for_password(value)
        return kind if simple else kind_of_value(name, value)
    return kind if is_credible(value, bare=True) else None


def _is_setting(text: str, match: "re.Match[str]", between: str) -> bool:
    """Tell whether a line is nothing but a setting, where no code stands that looks the same."""
    if text[match.end() : match.end() + 1] not in ("", "\n", "\r", "\\"):
        return False
    lines = text[max(0, match.start() - 200) : match.start()].replace("\\n", "\n").split("\n")
    start = lines[-1].rstrip(_NAME + ".")
    if len(lines) == 1 and match.start() > 200:
        return False
    if between == "=":  # code is indented, or has spaces here
        return start in ("", "export ")
    above = lines[-2].rstrip() if len(lines) > 1 else ""
    return between.startswith(":") and not start.strip(" -") and not above.endswith(_CODE_ENDS)


def _in_connection(text: str, match: "re.Match[str]", between: str) -> bool:
    """Tell whether a value stands in what a database is connected with, after a user's name."""
    before = text[max(0, match.start() - 1) : match.start()]
    return between == "=" and before in (" ", ";", "&") and _account_before(text, match, "=")


def _account_before(text: str, match: "re.Match[str]", sign: str) -> bool:
    """Tell whether somebody is named shortly before, as a key or a value; not an argument."""
    before = text[max(0, match.start() - 120) : match.start()].lower().replace("\\", "")
    names = ('"user', '"login"', '"email"') if sign == '"' else ("user=", "uid=", "user id=")
    before = before.rpartition("{")[2] if sign == '"' else before.rpartition(",")[2]
    return any(name in before for name in names)


_CODE_ENDS = (",", "{", "(", "[", ";", "=>", "=")
_NAME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
# What stands between the lines of a key: escaped line breaks, quotes, line numbers, diff marks.
_BETWEEN = r"(?:\\+[nrt]|[\s\"'`\\,>|#*+→…]|\d{1,6}(?=[\s→:|])|-(?!-))"
_KEY_BODY = (
    # Short lines are a key's too, if its end follows.
    rf"(?:(?=[^-]{{0,400}}?[0-9]){_BETWEEN}{{0,60}}+(?:[A-Za-z0-9+/=.]{{8,}}+{_BETWEEN}{{1,60}}+){{1,9}}+"
    r"-----END [A-Z0-9 ]{0,40}-----|"
    rf"{_BETWEEN}{{0,60}}+"
    rf"(?:(?:[A-Z][A-Za-z-]{{2,20}}:\ ?[^\n\\\"]{{1,100}}){_BETWEEN}{{1,60}}+){{0,6}}"
    rf"[A-Za-z0-9+/=]{{16,}}+(?:{_BETWEEN}{{1,60}}+[A-Za-z0-9+/=]{{16,}}+)*+"
    rf"(?:{_BETWEEN}{{1,60}}+=?[A-Za-z0-9+/]{{1,15}}+={{0,2}})?"
    rf"(?:{_BETWEEN}{{0,60}}+-----END [A-Z0-9 ]{{0,40}}-----)?)"
)
_LINES = rf"(?:{_BETWEEN}{{1,60}}+[A-Za-z0-9+/=]{{16,}}+)++"
_ASSIGNMENT = (
    r"(?P<name>(?:password|passwd|passphrase|pwd|secret|token|credentials?|"
    r"(?:api|access|private|signing|encryption|master|auth|admin|app|application|service|role|"
    r"account|storage|subscription|license|server|webhook|write|shared|hmac)[_-]?key)"
    r"(?:[_-]?(?:key|value))?)(?:[_-]?(?:base|prod|live|dev|staging|\d{1,2}))?"
    r"\\*[\"'`]?\]?(?:\s?:\s?(?:str|string|&str|String))?"
    r"\s{0,4}(?:=>|:=|=(?!=)|:(?!:))\s{0,4}"
    r"(?:[rbu]{0,2}\\*(?P<quote>[\"'`])(?P<quoted>(?:(?!(?P=quote))[^\s\\]){6,8192}+)\\*(?P=quote)"
    r"|(?P<bare>[^\s\"'`\\;&|<>(){},\[\]]{6,}+)(?=[\"'`\\\s;&|,}]|\Z))"
)

PRIVATE = Kind(
    "private",
    "<private \\u003cprivate &lt;private",
    r"(?:<|\\u003c|&lt;)(/?)private(?:\s[^<>]{0,200})?(?:>|\\u003e|&gt;)",
    folded=True,
)
"""The tags around what its author wants nobody to keep; they nest, so they are not one match."""

KINDS = (
    *TOKENS,
    *GIVEN,
    Kind(
        "private-key",
        "-----BEGIN",
        rf"(-----BEGIN [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----{_KEY_BODY})",
    ),
    Kind(
        "private-key",
        "SSH2 Private-Lines:",
        rf"(?:SSH2 ENCRYPTED PRIVATE KEY ----|Private-Lines: \d{{1,4}})({_LINES})",
    ),
    Kind(
        "private-key",
        "LS0tLS1CRUdJTi",
        r"(LS0tLS1CRUdJTi[A-Za-z0-9+/]{20,}+(?:(?:\\n|\s){1,20}[A-Za-z0-9+/]{60,}+)*+"
        r"(?:(?:\\n|\s){1,20}[A-Za-z0-9+/]{1,75}+==?)?={0,2})",
        check=_encoded_key,
    ),
    Kind(
        "private-key",
        '"d": "p": "q": "dp": "dq": "qi": "d\\ "p\\ "q\\ "dp\\ "dq\\ "qi\\',
        r'"(?:d|p|q|dp|dq|qi)\\*"\s{0,4}:\s{0,4}\\*"([A-Za-z0-9_-]{40,8192}+)\\*"',
        check=_of_key,
    ),
    Kind("preshared-key", "PresharedKey", rf"PresharedKey{OPEN}([A-Za-z0-9+/]{{43}}=)"),
    Kind(
        "aws-access-key",
        "AKIA ASIA ABIA ACCA",
        rf"{EDGE}(A(?:KI|SI|BI|CC)A[A-Z0-9]{{16}})(?![A-Za-z0-9_])",
    ),
    Kind(
        "aws-secret-key",
        "AKIA ASIA",
        rf"{FAR_EDGE}A[KS]IA[A-Z0-9]{{16}}(?:[\s:,;|/\"'\\]|\\n){{1,6}}"
        r"((?=[a-z0-9/+]*[A-Z])[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    Kind(
        "aws-secret-key",
        "secret",
        rf"secret[_-]?(?:access[_-]?)?key{OPEN}"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        folded=True,
        near="=:",
        check=_varied,
    ),
    Kind("google-oauth", "1//0", rf"{FAR_EDGE}(1//0{WORD}{{40,}}+)"),
    Kind("azure-key", "AccountKey=", r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    Kind("azure-key", "SharedAccessKey=", r"SharedAccessKey=([A-Za-z0-9+/]{42,44}={0,2})"),
    Kind("azure-signature", "sig=", r"(?<=[?&;])sig=([A-Za-z0-9%+/=]{43,120}+)", check=_signature),
    Kind(
        "azure-client-secret",
        "Q~",
        rf"(?:(?<![A-Za-z0-9_~.-]){ESCAPED})([A-Za-z0-9_~.-]{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}+)",
        offset=-4,
    ),
    Kind(
        "slack-webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{20,}+)",
    ),
    Kind(
        "openai-key",
        "sk-",
        rf"{DASHED_EDGE}(sk-(?=[a-z]*[A-Z\d]){LETTERS}{{32,}}+)(?!{WORD})",
    ),
    Kind("sendgrid-key", "SG.", rf"{EDGE}(SG\.{WORD}{{16,30}}\.{WORD}{{32,60}}+)"),
    Kind(
        "twilio-token",
        "twilio",
        rf"twilio[\w-]{{0,24}}+{OPEN}([0-9a-f]{{32}})(?![A-Za-z0-9])",
        folded=True,
    ),
    Kind(
        "telegram-token",
        ":AA :AB",
        rf"(?<=\d{{6}}):(A[AB]{WORD}{{31,34}})(?!{WORD})",
        check=_random,
    ),
    Kind(
        "discord-token",
        "MT Mj Mz ND NT Nj Nz OD OT",
        rf"{DASHED_EDGE}([MNO]{LETTERS}{{22,27}}\.{WORD}{{6}}\.{WORD}{{27,45}})(?!{WORD})",
        near=".",
        check=_snowflake,
    ),
    Kind(
        "mailchimp-key",
        "-us1 -us2 -us3 -us4 -us5 -us6 -us7 -us8 -us9",
        rf"{DASHED_EDGE}([0-9a-f]{{32}}-us\d{{1,2}})(?![A-Za-z0-9_-])",
        offset=-32,
    ),
    Kind("azure-key", "AZDO", r"([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})(?![A-Za-z0-9])", offset=-76),
    Kind("azure-key", "+ACR", r"([A-Za-z0-9+/]{42}\+ACR[A-Za-z0-9]{6})(?![A-Za-z0-9])", offset=-42),
    Kind("azure-key", "AzFu", rf"({WORD}{{44}}AzFu{WORD}{{4}}==)", offset=-44),
    Kind("firebase-key", ":APA91b", rf"(?<={WORD}{{11}}):(APA91b{WORD}{{100,}}+)"),
    Kind("teams-webhook", "/IncomingWebhook/", r"/IncomingWebhook/([0-9a-f]{32}/[0-9a-f-]{36})"),
    Kind(
        "signature",
        "x-amz-signature= x-goog-signature=",
        r"x-(?:amz|goog)-signature=([0-9a-f]{64,1024}+)",
        folded=True,
    ),
    Kind("discord-webhook", "/api/webhooks/", rf"/api/webhooks/\d{{15,21}}/({WORD}{{40,}}+)"),
    Kind(
        "square-token",
        "EAAA",
        rf"{FAR_EDGE}(EAAA{WORD}{{60}})(?![A-Za-z0-9_+/=-])",
        check=_random,
    ),
    Kind("heroku-key", "heroku", rf"heroku[\w-]{{0,24}}+{OPEN}({UUID})(?!{WORD})", folded=True),
    Kind("terraform-token", ".atlasv1.", rf"(?<={LETTERS}{{14}})(\.atlasv1\.{WORD}{{60,}}+)"),
    Kind(
        "jwt",
        "eyJ",
        rf"(?:(?<![A-Za-z0-9_])|(?<=(?:sk|pk)\.){ESCAPED})"
        rf"(eyJ{WORD}{{8,8192}}+\.(?:eyJ{WORD}{{8,}}+(?:\.{WORD}*+){{0,3}}"
        rf"|{WORD}*+\.{WORD}{{6,}}+(?:\.{WORD}*+){{0,2}}))",
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
        rf"authorization{OPEN}(?:([a-z]{{2,12}})\s{{1,4}})?"
        r"([A-Za-z0-9._~+/=-]{8,65536}+)",
        near="=:",
        folded=True,
        check=_in_header,
    ),
    Kind(
        "authorization",
        'response=" response=\\',
        r"response=\\*\"([0-9a-f]{32,128}+)\\*\"",
        check=_of_digest,
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
        " jwt= _session= token= sess= ssid= remember= sso=",
        r"[a-z_-]+=\\*\"?([^\s;,\"'\\]{12,4096}+)",
        folded=True,
        check=_in_cookie,
    ),
    Kind(
        "session",
        "cookie",
        rf"cookie(?:{OPEN}|\s{{1,2}}\\*[\"'])([^\n\"'\\]{{8,8192}}+)",
        folded=True,
        near="=:",
        each=Kind(
            "session",
            "",
            r"(?<![\w%.-])[\w%.!$*+^|~#&-]{1,100}+=([^\s;,\"'\\]{8,4096}+)",
            check=_any_cookie,
        ),
    ),
    Kind(
        "password",
        "password> passwd> passphrase> secret> token> accesskey> apikey>",
        r"(password|passwd|passphrase|secret|token|accesskey|apikey)>\s{0,4}([^<>\s]{6,4096}+)\s{0,4}</",
        folded=True,
        check=_in_tag,
    ),
    Kind(
        "password",
        'password" password\\',
        r'(password)\\*"\s{1,4}value=\\*"([^\s"<>\\]{6,300}+)\\*"',
        folded=True,
        check=_in_tag,
    ),
    Kind(
        "password",
        "_pass 'pass \"pass",
        rf"[_'\"]pass{OPEN}(?<=[\"'`])([^\s\"'`\\]{{8,300}}+)(?=[\"'`\\])"
        rf"|[_'\"]pass{OPEN}(?<![\"'`])([^\s\"'`\\;&|<>(){{}},\[\]]{{8,300}}+)(?=[\\\s;&|,}}]|\Z)",
        folded=True,
        near="=:",
        check=_pass,
    ),
    Kind(
        "secret",
        "password passwd passphrase pwd secret token credential api_key apikey api-key"
        " access_key access-key accesskey private_key privatekey signing_key encryption_key"
        " master_key auth_key auth-key admin_key app_key appkey application_key service_key"
        " role_key account_key storage_key subscription_key subscription-key license_key server_key"
        " webhook_key write_key writekey shared_key hmac_key",
        _ASSIGNMENT,
        folded=True,
        near="=:",
        check=_assigned,
    ),
)
