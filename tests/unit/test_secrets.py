"""Secrets are gone before anything is written; everything else comes through as it was.

The secrets here are made when the tests run, from pieces, so that no scanner trips over this file.
"""

from __future__ import annotations

import base64
import json
import random
import re
import string
import subprocess
import sys
import sysconfig
import urllib.parse
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import hostile
from rlmnb.capture.secretkinds import KINDS
from rlmnb.capture.secrets import redact, redact_text

LETTERS = string.ascii_letters + string.digits
WORD = LETTERS + "_-"
HEX = "0123456789abcdef"
MEGABYTE = 1 << 20
REPOSITORY = Path(__file__).parents[2]
MARK = re.compile(r"\[REDACTED:([a-z-]+):[0-9a-f]{8}\]")


def chance(seed: str, alphabet: str, length: int) -> str:
    """Return text that looks random and has a digit, a capital and a small letter in it."""
    source = random.Random(seed)
    body = [source.choice(alphabet) for _ in range(length)]
    for place, letter in enumerate("a7d9" if alphabet == HEX else "aK7b9Z"):
        if letter in alphabet:
            body[2 * place + 1] = letter
    return "".join(body)


def jwt(seed: str) -> str:
    parts = [{"alg": "HS256", "typ": "JWT"}, {"sub": seed, "iat": 1516239022}]
    coded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*coded, chance(seed, WORD, 43)])


def discord(seed: str) -> str:
    number = str(random.Random(seed).randrange(10**17, 10**18))
    identity = base64.b64encode(number.encode()).decode().rstrip("=")
    return f"{identity}.{chance(seed, LETTERS, 18)[:6]}.{chance(seed, LETTERS, 38)}"


# Tokens that are known by themselves: the beginning, the rest's alphabet and its length.
TOKENS = {
    "aws-access-key": ("AK" + "IA", string.ascii_uppercase + "234567", 16),
    "google-api-key": ("AI" + "za", WORD, 35),
    "google-oauth": ("GOC" + "SPX-", WORD, 28),
    "google-oauth-access": ("ya" + "29.", WORD, 60),
    "github-token": ("gh" + "p_", LETTERS, 36),
    "github-app-token": ("gh" + "s_", LETTERS, 36),
    "github-fine-token": ("github" + "_pat_", LETTERS + "_", 82),
    "gitlab-token": ("gl" + "pat-", WORD, 20),
    "slack-token": ("xo" + "xb-", LETTERS + "-", 50),
    "stripe-key": ("sk" + "_live_", LETTERS, 24),
    "stripe-restricted-key": ("rk" + "_live_", LETTERS, 24),
    "anthropic-key": ("sk-" + "ant-api03-", WORD, 95),
    "openai-key": ("sk-" + "proj-", WORD, 120),
    "openai-old-key": ("s" + "k-", LETTERS, 48),
    "huggingface-token": ("h" + "f_", LETTERS, 34),
    "npm-token": ("np" + "m_", LETTERS, 36),
    "pypi-token": ("py" + "pi-AgEIcHlwaS5vcmc", WORD, 130),
    "twilio-key": ("S" + "K", HEX, 32),
    "mailgun-key": ("ke" + "y-", HEX, 32),
    "digitalocean-token": ("do" + "p_v1_", HEX, 64),
    "databricks-token": ("da" + "pi", HEX, 32),
    "shopify-token": ("sh" + "pat_", HEX, 32),
    "square-token": ("sq0" + "atp-", WORD, 22),
    "heroku-key": ("HR" + "KU-", WORD, 58),
    "grafana-token": ("gl" + "sa_", LETTERS, 41),
    "linear-key": ("lin" + "_api_", LETTERS, 40),
    "vault-token": ("hv" + "s.", WORD, 90),
    "docker-token": ("dckr" + "_pat_", WORD, 27),
    "groq-key": ("gs" + "k_", LETTERS, 52),
    "newrelic-key": ("NR" + "AK-", string.ascii_uppercase + string.digits, 27),
    "buildkite-token": ("bk" + "ua_", HEX, 40),
    "clojars-token": ("CLO" + "JARS_", HEX, 60),
    "easypost-key": ("EZ" + "AK", LETTERS, 54),
    "elevenlabs-key": ("s" + "k_", HEX, 48),
    "neon-key": ("na" + "pi_", HEX, 64),
    "netlify-token": ("nf" + "p_", LETTERS, 36),
    "onepassword-token": ("op" + "s_eyJ", LETTERS, 240),
    "prefect-key": ("pn" + "u_", LETTERS, 36),
    "pulumi-token": ("pu" + "l-", HEX, 40),
    "readme-key": ("rd" + "me_", HEX, 70),
    "scalingo-token": ("tk" + "-us-", WORD, 48),
    "sonar-token": ("sq" + "p_", HEX, 40),
    "tavily-key": ("tv" + "ly-", LETTERS, 32),
    "typeform-token": ("tf" + "p_", LETTERS, 59),
    "vercel-token": ("vercel" + "_blob_rw_", LETTERS, 46),
    "aws-any-digits": ("AS" + "IA", string.ascii_uppercase + "0189", 16),
    "openai-no-digits": ("s" + "k-", string.ascii_letters, 48),
    "artifactory-key": ("AK" + "Cp", LETTERS, 69),
    "contentful-token": ("CFP" + "AT-", WORD, 43),
    "duffel-token": ("duffel" + "_live_", WORD, 43),
    "facebook-token": ("EA" + "AC", LETTERS, 150),
    "flutterwave-key": ("FLWS" + "ECK-", HEX, 32),
    "frameio-token": ("fi" + "o-u-", WORD, 64),
    "gitlab-runner-token": ("GR13" + "48941", WORD, 20),
    "infracost-key": ("ic" + "o-", LETTERS, 32),
    "launchdarkly-key": ("sd" + "k-6d8a1f0c-93b2-4e57-8c1d-", HEX, 12),
    "nvidia-key": ("nv" + "api-", WORD, 64),
    "octopus-key": ("AP" + "I-", string.ascii_uppercase + string.digits, 26),
    "openshift-token": ("sha" + "256~", WORD, 43),
    "shippo-token": ("shippo" + "_live_", HEX, 40),
    "sourcegraph-token": ("sg" + "p_", HEX, 40),
    "tencent-key": ("AK" + "ID", LETTERS, 32),
    "vercel-new-token": ("vc" + "p_", LETTERS, 56),
}
PLAIN = [*TOKENS, "sendgrid-key", "jwt", "discord-token"]


def planted(kind: str, seed: str = "one") -> str:
    if kind == "jwt":
        return jwt(seed)
    if kind == "discord-token":
        return discord(seed)
    if kind == "sendgrid-key":
        return f"S{'G'}.{chance(seed, LETTERS, 22)}.{chance(seed + 'b', LETTERS, 43)}"
    start, alphabet, length = TOKENS[kind]
    return start + chance(kind + seed, alphabet, length)


def pem(kind: str = "RSA ", lines: int = 20, *, end: bool = True) -> str:
    body = [chance(f"{kind}{n}", LETTERS + "+/", 64) for n in range(lines)]
    name = kind + "PRIVATE " + "KEY" + (" BLOCK" if kind.startswith("PGP") else "")
    tail = [chance("tail", LETTERS, 20) + "==", f"-----END {name}-----"] if end else []
    return "\n".join([f"-----BEGIN {name}-----", *body, *tail])


# Secrets that only their surroundings tell: the text around, and the secret.
STRONG = "v9X" + "!tq7$Lm2"
WORDS = "sword" + "fish"
B64 = LETTERS + "+/"
SURROUNDED = {
    "aws-secret-key": ("aws_secret_access_key = {}\n", chance("aws", B64, 40)),
    "aws-secret-json": ('{{"SecretAccessKey": "{}"}}', chance("aws2", B64, 40)),
    "aws-beside-id": ("AK" + "IA" + "Q3EGRIZHT2UV5WXY,{}\n", chance("aws3", B64, 40)),
    "aws-session": ("export AWS_SESSION_TOKEN={}\n", chance("aws4", B64, 300)),
    "azure-storage": ("AccountName=a;Account" + "Key={};Suffix=b", chance("az", B64, 86) + "=="),
    "azure-bus": ("SharedAccess" + "Key={};EntityPath=q", chance("az2", B64, 43) + "="),
    "azure-sas": ("https://a.blob/c?sv=2022&sp=r&sig={}&x=1", chance("az3", LETTERS, 43) + "%3D"),
    "azure-client": ("client: {} ", "abc8" + "Q~" + chance("az4", LETTERS, 34)),
    "slack-webhook": (
        "https://hooks." + "slack.com/services/{}",
        "T0AB1CD2E/B0FG3HI4J/" + chance("hook", LETTERS, 24),
    ),
    "discord-webhook": (
        "https://discord.com/api/" + "webhooks/123456789012345678/{}",
        chance("hook2", LETTERS, 68),
    ),
    "telegram": (
        "https://api.telegram.org/bot123456789:{}/getMe",
        "A" + "A" + chance("t", WORD, 33),
    ),
    "heroku": ("HEROKU_API_KEY={}\n", "6d8a1f0c-93b2-4e57-8c1d-0f2a7b9e4d31"),
    "twilio": ("TWILIO_AUTH_TOKEN={}\n", chance("tw", HEX, 32)),
    "url": ("https://ada:{}@example.org/repo.git", "s3cr" + "etPa55"),
    "postgres": ("postgres://app:{}@db.internal:5432/main?sslmode=require", "Zx8%40" + "qqLw"),
    "redis": ("redis://:{}@cache:6379/0", "plain" + "words"),
    "bearer": ("Authorization: Bearer {}\r\n", chance("bearer", LETTERS, 40)),
    "basic": (
        "Authorization: Basic {}\r\n",
        base64.b64encode(b"ada:" + STRONG.encode()).decode(),
    ),
    "authorization-token": ("authorization: token {}\n", chance("auth", HEX, 40)),
    "api-key-header": ('curl -H "X-Api-Key: {}" https://x', chance("xapi", LETTERS, 32)),
    "cookie": ("Cookie: theme=dark; sessionid={}; lang=en", chance("cookie", LETTERS, 32)),
    "set-cookie": ("Set-Cookie: connect.sid={}; Path=/; HttpOnly", chance("cookie2", LETTERS, 40)),
    "env-file": ("DEBUG=1\nDB_PASSWORD={}\nPORT=80\n", STRONG),
    "exported": ("export API_TOKEN={} && make", chance("exp", LETTERS, 32)),
    "python": ('client = Client(api_key="{}")', chance("py", LETTERS, 32)),
    "annotated": ('SECRET_KEY: str = "{}"', chance("ann", LETTERS, 50)),
    "javascript": ("const cfg = {{ clientSecret: '{}' }};", chance("js", LETTERS, 32)),
    "yaml": ("db:\n  password: {}\n  port: 5432\n", STRONG),
    "connection": ("Server=db;User Id=sa;Password={};Encrypt=true", STRONG.replace("$", "#")),
    "query": ("GET /v1/items?access_token={}&page=2", chance("query", LETTERS, 40)),
    "option": ("deploy --auth-token {} --verbose", chance("opt", LETTERS, 40)),
    "option-key": ("deploy --api-key {} --verbose", chance("opt2", LETTERS, 40)),
    "curl-user": ("curl -u ada:{} https://example.org", STRONG),
    "netrc": ("machine example.org login ada password {}\n", "plainwords1"),
    "sshpass": ("sshpass -p {} ssh ada@host uptime", STRONG.replace("$", "#")),
    "mysql": ("mysql -h db -u root -p{} main < dump.sql", STRONG.replace("$", "#")),
    "docker-login": ("docker login -u ada -p {} registry", STRONG.replace("$", "#")),
    "redis-cli": ("redis-cli -h cache -p 6379 -a {} ping", STRONG.replace("$", "#")),
    "npmrc": ("_auth={}\nemail=a@b.c\n", base64.b64encode(b"ada:" + STRONG.encode()).decode()),
    "aws-secret-of-the-manual": (
        "aws_secret_access_key = {}\n",
        "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    ),
    "simple-password": ('{{"user": "ada", "password": "{}"}}', "hunt" + "er2"),
    "words-in-environment": ("DB_PASSWORD={}\nPORT=80\n", "correct-horse" + "-battery-staple"),
    "uuid-as-key": ("SNYK_TOKEN={}\n", "6d8a1f0c-93b2-4e57-8c1d-0f2a7b9e4d31"),
    "uuid-as-secret": ("client_secret: '{}'", "6d8a1f0c-93b2-4e57-8c1d-0f2a7b9e4d31"),
    "named-key": ("ALGOLIA_ADMIN_KEY={}\n", chance("algolia", HEX, 32)),
    "scheme": ("Authorization: SSWS {}\r\n", "00" + chance("okta", WORD, 40)),
    "short-bearer": ("Authorization: Bearer {}\r\n", "abcdef" + "123456"),
    "digest": (
        'Authorization: Digest username="ada", nonce="0a1", response="{}", qop=auth',
        chance("digest", HEX, 32),
    ),
    "cookie-of-any-name": ("Cookie: a=1; remember_token={}; b=2", chance("cookie3", LETTERS, 32)),
    "xml": ("<server><password>{}</password></server>", "s3cret" + "PW1x"),
    "nuget": ('<add key="ClearTextPassword" value="{}" />', "s3cret" + "PW1x"),
    "sts": ("<SecretAccessKey>{}</SecretAccessKey>", chance("sts", B64, 40)),
    "curl-user-without-space": ("curl -uada:{} https://example.org", STRONG),
    "openssl": ("openssl rsa -passin pass:{} -in k.pem", "s3cret" + "PW1x"),
    "keytool": ("keytool -list -storepass {} -keystore k", "s3cret" + "PW1x"),
    "mongosh": ("mongosh -u ada -p {} db", "s3cret" + "PW1x"),
    "presigned": ("https://b.s3.amazonaws.com/k?X-Amz-Signature={}&x=1", chance("sig", HEX, 64)),
    "mailchimp": ("key {} here", chance("chimp", HEX, 32) + "-us12"),
    "azure-devops": ("pat {} here", chance("azdo", LETTERS, 76) + "AZ" + "DO" + "1aB2"),
    "kubeconfig": (
        "    client-key-data: {}\n",
        base64.b64encode(pem(lines=3).encode()).decode(),
    ),
    "jwk": ('{{"kty": "EC", "crv": "P-256", "d": "{}"}}', chance("jwk", WORD, 43)),
    "wireguard": ("[Peer]\nPresharedKey = {}\n", chance("wg", LETTERS, 43) + "="),
    "django": (
        "SECRET_KEY = '{}'",
        "django-" + "insecure-x9@k3l(2h$1!" + chance("dj", LETTERS, 20),
    ),
    "env-pass": ("export DB_PASS={} && make", chance("dbp", LETTERS, 20)),
    "quoted-pass": ("{{'user': 'ada', 'pass': '{}'}}", chance("dbq", LETTERS, 20)),
    "word-in-yaml": ("db:\n  user: ada\n  password: {}\n  port: 5432\n", WORDS),
    "word-in-properties": ("spring.datasource.password={}\nserver.port=80\n", WORDS),
    "word-in-shell": ("export db_password={}\nmake\n", WORDS),
    "word-beside-user": ('{{"username": "ada", "password": "{}"}}', WORDS),
    "word-for-database": ('psql "host=db user=ada password={} dbname=x"', WORDS),
    "word-in-connection": ("Server=db;Uid=ada;Pwd={};", WORDS),
    "word-in-xml": ("<server><password>{}</password></server>", WORDS),
    "word-as-option": ("wget --password={} http://example.org", WORDS),
    "cookie-of-unknown-name": ("Cookie: theme=dark; xq={}; lang=en", chance("c4", LETTERS, 24)),
    "cookie-of-hex": ("Set-Cookie: qq={}; Path=/; HttpOnly", chance("c5", HEX, 32)),
    "curl-cookie": ("curl --cookie 'zz={}' https://example.org", chance("c6", LETTERS, 24)),
    "pgpass": ("localhost:5432:main:ada:{}\n", WORDS),
    "pgpass-any": ("*:*:*:ada:{}\n", WORDS),
    "oracle": ("jdbc:oracle:thin:scott/{}@//db:1521/XE", WORDS),
    "sqlplus": ("sqlplus -s scott/{}@orcl @x.sql", WORDS),
    "zip": ("zip -r -P {} out.zip dir", WORDS),
    "unzip": ("unzip -P {} out.zip", WORDS),
    "7z": ("7z a -p{} out.7z dir", WORDS),
    "openssl-key": ("openssl enc -aes-256-cbc -k {} -in a -out b", WORDS),
    "openssl-pass": ("openssl enc -aes-256-cbc -pass pass:{} -in a", WORDS),
    "gpg": ("gpg --batch --passphrase {} -c notes.txt", WORDS),
    "curl-user-with-spaces": ("curl -u 'ada:{}' https://example.org", "sword fish" + " and more"),
    "sudo": ("echo {} | sudo -S apt update", WORDS),
    "chpasswd": ("echo 'ada:{}' | sudo chpasswd", WORDS),
    "sql-user": ("CREATE USER ada WITH PASSWORD '{}';", WORDS),
    "sql-identified": ("ALTER USER ada IDENTIFIED BY '{}';", WORDS),
    "redis-conf": ("port 6379\nrequirepass {}\n", WORDS),
    "netrc-lines": ("machine example.org\n  login ada\n  password {}\n", WORDS),
    "shadow": ("ada:{}:19000:0:99999:7:::\n", "$6$" + "saltsalt$" + chance("sh", LETTERS, 86)),
    "shadow-new": (
        "ada:{}:19000:0:::\n",
        "$y$" + "j9T$F5Jx5fExrKuPp53xLKQ..1$" + chance("y", LETTERS, 43),
    ),
    "bcrypt": ("ada:{}\n", "$2b$" + "12$" + chance("bc", LETTERS, 53)),
    "docker-config": (
        '{{"auths": {{"x": {{"auth": "{}"}}}}}}',
        base64.b64encode(b"ada:" + STRONG.encode()).decode(),
    ),
}


def leaves_nothing(secret: str, text: str) -> bool:
    """Tell whether no seven characters of the secret in a row are left."""
    bare = MARK.sub("", text)
    return not any(secret[n : n + 7] in bare for n in range(len(secret) - 6))


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "the key is {} and that is all",
        "KEY={}\nOTHER=1\n",
        'key = "{}"  # set by hand',
        "a line\\n{}\\nanother",
        '{{\\"key\\": \\"{}\\"}}',
        "https://example.org/x?key={}&y=1",
        "key%3D{}%26y",
        "+{}\n-{}\n",
        "\x1b[32m{}\x1b[0m",
        "({})",
        "`{}`",
    ],
)
def test_a_token_is_gone_wherever_it_stands(kind: str, around: str) -> None:
    secret = planted(kind)
    redacted = redact_text(around.replace("{}", secret))
    assert leaves_nothing(secret, redacted), redacted
    assert MARK.search(redacted)


@pytest.mark.parametrize(
    "kind",
    [
        *("anthropic-key", "openai-key", "aws-access-key", "google-api-key", "github-token", "jwt"),
        *("gitlab-token", "slack-token", "stripe-key", "sendgrid-key", "npm-token", "pypi-token"),
    ],
)
def test_a_token_is_gone_from_the_name_of_a_file(kind: str) -> None:
    secret = planted(kind)
    for around in ("/tmp/key-{}.txt", "notes/{}/today", "-o {}"):
        redacted = redact_text(around.replace("{}", secret))
        assert leaves_nothing(secret, redacted), redacted


@pytest.mark.parametrize("kind", PLAIN)
def test_equal_tokens_stay_equal_and_different_ones_different(kind: str) -> None:
    one, two = planted(kind, "one"), planted(kind, "two")
    first, second, third = redact_text(f"{one}\n{two}\n{one}").split("\n")
    assert first == third != second
    assert first == redact_text(one)


@pytest.mark.parametrize("name", SURROUNDED)
def test_a_secret_told_by_its_surroundings_is_gone_and_they_stay(name: str) -> None:
    around, secret = SURROUNDED[name]
    text = around.format(secret)
    redacted = redact_text(text)
    assert leaves_nothing(secret, redacted), redacted
    before, _, after = around.format("\0").partition("\0")
    assert redacted.endswith(after)
    if name != "aws-beside-id":
        assert redacted.startswith(before)


@pytest.mark.parametrize("name", SURROUNDED)
def test_it_is_gone_from_json_inside_json_too(name: str) -> None:
    around, secret = SURROUNDED[name]
    text = "first\n" + around.format(secret)
    for _ in range(2):
        text = json.dumps({"command": text})
        assert leaves_nothing(secret, redact_text(text)), redact_text(text)


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "PGP "])
def test_a_private_key_is_gone_however_its_lines_are_written(kind: str) -> None:
    key = pem(kind)
    numbered = "\n".join(f"{n:>6}→{line}" for n, line in enumerate(key.split("\n"), 1))
    added = "\n".join("+" + line for line in key.split("\n"))
    marks = set()
    for text in (key, json.dumps(key), json.dumps(json.dumps(key)), numbered, added):
        redacted = redact_text(f"before\n{text}\nafter")
        assert leaves_nothing("".join(key.split("\n")[1:-1]), redacted)
        assert redacted.startswith("before")
        assert redacted.endswith("after")
        marks |= {found[0] for found in MARK.finditer(redacted)}
    assert len(marks) == 1


def test_a_private_key_with_headers_or_without_its_end_is_gone() -> None:
    key = pem(end=False)
    assert redact_text(key) == MARK.search(redact_text(key))[0]  # type: ignore[index]
    head, _, body = key.partition("\n")
    headed = f"{head}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B2C\n\n{body}"
    assert leaves_nothing(body, redact_text(headed))
    assert redact_text(key + "\n\nThen came the rest.").endswith("rest.")
    assert leaves_nothing(key[40:], redact_text(key[:700]))


def test_a_private_key_of_short_lines_or_in_another_shape_is_gone() -> None:
    body = "MIIEow" + "IBAAKC\nAQEA7xyz\nb0c1d2e3"
    name = "RSA PRIVATE " + "KEY-----"
    short = f"-----BEGIN {name}\n{body}\n-----END {name}"
    lines = "\n".join(chance(f"ppk{n}", B64, 64) for n in range(3))
    putty = "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-" + f"Lines: 3\n{lines}\nPrivate-MAC: 0"
    ssh2 = "---- BEGIN SSH2 ENCRYPTED PRIVATE " + f"KEY ----\n{lines}\n---- END"
    for text, secret in ((short, body), (putty, lines), (ssh2, lines)):
        redacted = redact_text(f"before\n{text}\nafter")
        assert leaves_nothing(secret, redacted), redacted
        assert redacted.endswith("after")


def test_a_private_key_in_a_list_of_lines_is_gone() -> None:
    key = pem()
    for lines in (key.split("\n"), key.splitlines(keepends=True)):
        redacted = redact({"lines": ["x = 1", *lines, "y = 2"], "n": 3})
        assert leaves_nothing(key[40:], json.dumps(redacted))
        assert redacted["n"] == 3
    assert redact(["a", "b private", "c"]) == ["a", "b private", "c"]


def test_private_marks_hide_what_is_between_them() -> None:
    opening, closing = "<pri" + "vate>", "</pri" + "vate>"
    text = f"a {opening}b{closing} c {opening.upper()}d {opening}e{closing} f{closing} g"
    assert MARK.sub("#", redact_text(text)) == "a # c # g"
    assert MARK.sub("#", redact_text(f"a {opening}b\nc")) == "a #"
    assert redact_text(f"a {closing} b") == f"a {closing} b"
    escaped = json.dumps(f"a {opening}b{closing}").replace("<", "\\u003c").replace(">", "\\u003e")
    assert MARK.sub("#", redact_text(escaped)) == '"a #"'
    assert redact({"k": f"{opening}b"})["k"].startswith("[REDACTED:private:")


def test_private_marks_hide_though_code_or_a_word_stands_before_them() -> None:
    open_, close = "<pri" + "vate>", "</pri" + "vate>"
    redacted = redact_text(f"Local<Private> a; mine{open_}plum{close} yours {open_}pear{close} b")
    assert "plum" not in redacted
    assert "pear" not in redacted
    assert redacted.startswith("Local<Private> a; mine[REDACTED:private:")
    assert redacted.endswith("] b")


def test_values_are_judged_by_their_keys() -> None:
    secret = chance("value", LETTERS, 24)
    for key in ("password", "apiKey", "API-KEY", "authorization", "access_token", "client_secret"):
        assert leaves_nothing(secret, json.dumps(redact({"a": [{key: secret}]})))
    assert leaves_nothing(secret, json.dumps(redact([{"name": "DB_PASSWORD", "value": secret}])))
    assert leaves_nothing(planted("jwt"), json.dumps(redact({planted("jwt"): 1})))
    assert leaves_nothing(WORDS, json.dumps(redact({"password": WORDS, "username": "ada"})))
    assert redact({"password": "Passwort", "username": "Benutzer"})["password"] == "Passwort"


@pytest.mark.parametrize(
    ("key", "around"),
    [
        ("Authorization", "Token {}"),
        ("authorization", "Bearer {}"),
        ("Cookie", "theme=dark; sessionid={}; lang=en"),
        ("set-cookie", "sid={}; Path=/"),
    ],
)
def test_headers_kept_as_keys_are_read_like_headers(key: str, around: str) -> None:
    secret = chance("header", LETTERS, 32)
    redacted = redact({"headers": {key: around.format(secret)}})["headers"][key]
    assert MARK.sub("{}", redacted) == around


def test_a_token_without_its_signature_is_gone() -> None:
    head, body, _ = planted("jwt").split(".")
    assert MARK.fullmatch(redact_text(f"{head}.{body}"))
    assert leaves_nothing(body, redact_text(f"{head}.{body}..."))


def test_lists_keep_their_length_unless_a_secret_reaches_over_several_lines() -> None:
    secret = planted("github-token")
    redacted = redact(["a\n", "b", f"private {secret}", "two\nlines"])
    assert [len(redacted), redacted[:2], redacted[3]] == [4, ["a\n", "b"], "two\nlines"]


def test_small_letters_stand_where_the_capitals_stood() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    text = every + planted("github-token") + ' password="' + STRONG + '"'
    assert redact_text(text).startswith(every + "[REDACTED:")
    assert leaves_nothing(STRONG, redact_text(text))


@pytest.mark.parametrize(
    "value",
    [
        {"token": "next_page_2", "password": "changeme", "api_key": "YOUR_API_KEY"},
        {"token": "550e8400-e29b-41d4-a716-446655440000", "max_tokens": 4096},
        {"secret": "${SECRET}", "password": "<password>", "authorization": "required"},
        {"nextToken": "aB3dE5gH7jK9mN1pQ3sT5vW7", "password": None, "token": True},
        {"sha": "9fceb02d0ae598e95dc970b74767f19372d61af8", "ok": [1, 2.5, None]},
    ],
)
def test_placeholders_names_and_references_are_kept(value: object) -> None:
    assert redact(value) == value


ORDINARY = [
    "eyJ is the beginning of many a token, eyJhbGciOi too",
    "password = get_password()",
    "token: str",
    'api_key=os.environ["KEY"]',
    "const token = await getToken(user2.id, cfg.v1);",
    "pip install sk-learn scikit-learn==1.5.0 # sk-learn-contrib-extended-edition-2",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "id: 550e8400-e29b-41d4-a716-446655440000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "integrity sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeo==",
    "git@github.com:ada/engine.git https://example.org:8080/a@b http://user:password@host/",
    "postgres://$USER:$PASSWORD@db/x mysql://root:<password>@db/x redis://u:{{pw}}@h",
    'curl -H "Authorization: Bearer $TOKEN" -H "Authorization: Bearer <token>"',
    "Authorization: Bearer YOUR_ACCESS_TOKEN_HERE",
    ".a-token{color:#1a2b3c;margin:0 4px}.secret:hover{background:url(img/x1.png)}",
    "!function(e,t){var n=e.token=t.token||'',r=t.password;n&&r(n+'=1;path=/')}(this,{a:1,b:'2'});",
    "2024-05-01T12:00:00Z INFO request_id=7f3a9c token_count=512 cache_key=user:42:v3 200 12ms",
    "self.assertEqual(token, 'token1'); password='password123'; secret_name='prod/db-2'",
    "def login(password: str = 'hunter', token: str | None = None) -> Secret: ...",
    "PASSWORD_HASHERS = ['django.contrib.auth.hashers.PBKDF2PasswordHasher']",
    "private_key: ed25519.Ed25519PrivateKey, key: PKCS7PrivateKeyTypes",
    'if "-----BEGIN RSA PRIVATE " + "KEY-----" in text: raise ValueError("no key")',
    "Basic authentication and basic usage; Basic HTMLParser; Bearer authentication is supported",
    "void SetPrivate(Local<Private> key, Local<Value> value); C<Private> and B<private>",
    "return <Private /> || <Private path='/x' />;",
    "put it between `<private>` marks, or say '<private>' aloud",
    'START = "-----BEGIN PRIVATE " + "KEY-----"; authorization = self.headers.get("authorization")',
    "password=None, password='', DB_PASSWORD=$1, ERROR_INVALID_PASSWORD=InvalidPassword",
    "authorization = await get_header2(request, 1); r.headers['Authorization'] = make_auth2(user)",
    "cache_key=9fceb02d0ae598e95dc970b74767f193 primary_key: 550e8400-e29b-41d4-a716-446655440000",
    "01ecfbc99fd359877552cb5298087ad4  common-password\n9fceb02d0ae598e95dc970b74767f193  x",
    "    Credential: _win32typing.PyCredHandle,",
    "mysql -u root -p app < dump.sql; redis-cli -h cache -p 6379 get k; docker login -u ada -p $P",
    "mysqldump --single-transaction --quick -p --databases app; ssh -p 2222 host; login -p page",
    "user_pass = None; by_pass: bool = True; _pass=$DB_PASS; 'pass': 'fail'; two_pass=two_pass_v2",
    "password = getpass()\npassword: str\npassword = None\npassword=password\npassword=prompted\n",
    "def f(\n    user: str,\n    password: whatever\n):\n",
    "const a = {\n  user,\n  password: supplied\n};\nlogin({ user: name, password: supplied });",
    "interface A {\n  user: string\n  password: string\n}",
    'labels = {"username": "Benutzername", "password": "Passwort"}; x = {"password": "swordfish"}',
    "connect(user=name, password=supplied)\n    password=supplied\n",
    "password: required\npassword: optional\nPassword: ********\nEnter password: \n",
    "wget https://a.org/a.zip -P downloads; gzip -k notes.txt; zip -r out.zip a & xargs -P 4",
    'openssl s_client -connect example.org:443; openssl req -key k.pem; unzip -P "$PASSWORD" a.zip',
    "sqlplus / as sysdba; sqlplus /nolog; echo done | sudo tee x; echo a:b | tr : x",
    "Set-Cookie: theme=dark; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/; SameSite=Lax",
    'document.cookie = "name=" + encodeURIComponent(value) + "; path=/"; cookie_name = "sessionid"',
    "nobody:*:-2:-2:Unprivileged User:/var/empty:/usr/bin/false\nroot:x:0:0:root:/root:/bin/bash",
    "127.0.0.1:5432: connection refused; ports: 5432:5432; localhost:5432:main",
    "a library identified by 'libname'; auth_password: attribute",
    "The password 'prompt' is shown; requirepass is a setting of redis; costs $5$ or $6$",
    "AKIA is a prefix; ghp_ too; xoxb-; SG.; hf_hub_download(repo_id='bert-base-uncased')",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_lines_come_through_unchanged(text: str) -> None:
    assert redact_text(text) is text
    assert redact({"text": [text]}) == {"text": [text]}


def ordinary_files() -> list[Path]:
    library = Path(sysconfig.get_path("stdlib"))
    found = [REPOSITORY / "requirements-dev.lock", REPOSITORY / "README.md"]
    for folder in ("rlmnb", "tests", "benchmarks"):
        found += (REPOSITORY / folder).rglob("*.py")
    for folder in ("email", "http", "asyncio", "json", "urllib", "ctypes"):
        found += (library / folder).glob("*.py")
    return [path for path in found if path.is_file()]


def test_source_files_come_through_unchanged() -> None:
    files = ordinary_files()
    assert len(files) > 60
    changed = [
        path for path in files if redact_text(text := path.read_text(encoding="utf-8")) != text
    ]
    assert changed == []


def test_an_image_and_a_lock_file_of_a_megabyte_come_through_unchanged() -> None:
    source = random.Random(1)
    image = base64.b64encode(b"\x89PNG\r\n" + source.randbytes(3 * MEGABYTE // 4)).decode()
    lock = "".join(f"    --hash=sha256:{source.randbytes(32).hex()} \\\n" for _ in range(12_000))
    lock += "".join(
        f'    "integrity": "sha512-{base64.b64encode(source.randbytes(64)).decode()}",\n'
        for _ in range(3000)
    )
    for text in (image, "data:image/png;base64," + image, lock):
        assert redact_text(text) is text


@pytest.mark.parametrize("text", list(hostile.texts(64 * 1024)), ids=list(hostile.NAMES))
def test_hostile_text_comes_to_an_end_and_nothing_new_is_found_in_what_is_left(text: str) -> None:
    once = redact_text(text)  # how long it takes, `make bench` tells
    assert redact_text(once) == once


TAGS = ("<pri" + "vate>", "</pri" + "vate>")
PIECES = st.sampled_from(
    [
        *(planted(kind) for kind in PLAIN),
        *(a.format(s) for a, s in SURROUNDED.values()),
        pem(lines=2),
        *TAGS,
        *("token=", '"', "\\n", "-", "Cookie: ", " ", ":", "://a:", "@b"),
        *("Bearer ", "Basic ", "sk-", "eyJ", "password", "a1B2c3D4e5", "[", "]"),
    ]
)


@example(planted("aws-access-key") + TAGS[0])  # after a letter it is a type, after a mark a tag
@given(st.lists(PIECES | st.text(max_size=8), max_size=8).map("".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once
    value = {
        "password": text,
        "lines": [text, text],
        text: 1,
        "cookie": text,
        "Authorization": text,
    }
    assert redact(redact(value)) == redact(value)


@given(st.text())
def test_text_without_a_literal_comes_back_as_it_was(text: str) -> None:
    folded = text.lower()
    if not any(anchor.lower() in folded for kind in KINDS for anchor in kind.anchors):
        assert redact_text(text) == text or "private" in folded


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(alphabet="ab \n", max_size=9),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("abc"), inner),
    )
)
def test_values_without_secrets_stay_equal(value: object) -> None:
    assert redact(value) == value


def test_a_value_as_deep_as_json_goes_is_redacted() -> None:
    value: object = planted("github-token")
    for _ in range(1500):
        value = [value]
    redacted = redact(value)
    while isinstance(redacted, list):
        redacted = redacted[0]
    assert MARK.fullmatch(redacted)


def test_a_hook_with_nothing_to_hide_loads_no_regular_expressions() -> None:
    code = (
        "import sys; from rlmnb.capture.secrets import redact;"
        "redact({'command': 'ls -la', 'stdout': 'total 0\\n' * 100});"
        "print('re' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={"PYTHONPATH": str(REPOSITORY)},
    )
    assert done.stdout == "False\n", done.stderr


def test_an_encoded_password_in_a_url_is_gone() -> None:
    password = "p@ss" + "/w0rd#1"
    text = f"https://ada:{urllib.parse.quote(password, safe='')}@example.org/x"
    assert redact_text(text).startswith("https://ada:[REDACTED:url-password:")
    assert "w0rd" not in redact_text(text)
    marks = MARK.findall(text := redact_text(f'{text} password = "{password}"'))
    assert marks == ["url-password", "password"]
    assert len({found[0][-9:] for found in MARK.finditer(text)}) == 1
