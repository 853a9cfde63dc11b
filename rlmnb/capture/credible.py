"""What looks like a real credential, and what is a placeholder, a name, a reference or code."""

_SHORTEST, _LONGEST = 8, 8192
_SHORTEST_PASSWORD = 6
_LONGEST_WORD = 64
# Words that stand where a secret will be filled in later, and the marks of templates and code.
_PLACEHOLDERS = (
    *("[redacted", "redacted", "example", "changeme", "change_me", "change-me", "placeholder"),
    *("dummy", "fake", "not-a-real", "insert", "replace", "todo", "n/a", "xxxx", "****", "...."),
    *("your_", "your-", "yourp", "yours", "yourt", "yourk", "youra", "…", "<", ">", "${", "{{"),
    *("{}", "%(", "%s", "$(", "#{", "://", "()", "0123456789", "1234567890", "abcdefgh"),
)
_ORDINARY = frozenset(
    ("password", "passwd", "pass", "pwd", "pw", "passw0rd", "mypassword", "secret", "token")
) | frozenset(("user", "username", "test", "hidden", "none", "null", "foo", "bar", "baz"))
# What a setting, a type, a text or code says of a password without giving one away.
_SAID_OF_PASSWORDS = frozenset(
    (
        *("string", "object", "boolean", "number", "integer", "binary", "varchar", "unicode"),
        *("optional", "required", "mandatory", "undefined", "default", "defaults", "unknown"),
        *("encrypted", "hashed", "hidden", "masked", "prompt", "prompted", "plaintext", "random"),
        *("generated", "static", "inherit", "invalid", "missing", "incorrect", "mismatch", "wrong"),
        *("expired", "changed", "updated", "forgotten", "reset", "enabled", "disabled", "always"),
        *("never", "stdin", "environ", "configured", "ignored", "accepted", "rejected"),
        *("passcode", "passkey", "credential", "credentials", "private", "public", "access"),
        *("passwort", "kennwort", "wachtwoord", "passord", "parola", "salasana", "contrasena"),
        *(
            "attribute",
            "property",
            "method",
            "parameter",
            "argument",
            "field",
            "column",
            "variable",
        ),
        *("function", "lambda", "return", "async", "await", "export", "const", "readonly"),
    )
)
_STRONG = frozenset("!@#$%^&*+=?~")
_WORD = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-"
_DIGITS = "0123456789"
_CODE = frozenset("([{")
# Letters, capitals and digits take turns in what is random; a capital that begins a word does not
# count.
_CLASSES = {
    code: "d" if chr(code).isdigit() else "u" if chr(code).isupper() else "l"
    for code in range(128)
    if chr(code).isalnum()
}
_CHANGES = ("ld", "dl", "lu", "ud", "du")
_HEX = frozenset("0123456789abcdefABCDEF")
# The end of a name that says its value is a credential, letters only; the kind it is called.
_NAMES = (
    ("password", "password"),
    ("passwd", "password"),
    ("passphrase", "password"),
    ("pwd", "password"),
    ("token", "token"),
    ("apikey", "api-key"),
    ("accesskey", "api-key"),
    ("secretkey", "secret"),
    ("privatekey", "secret"),
    ("signingkey", "secret"),
    ("encryptionkey", "secret"),
    ("masterkey", "secret"),
    ("authkey", "secret"),
    ("adminkey", "api-key"),
    ("appkey", "api-key"),
    ("applicationkey", "api-key"),
    ("servicekey", "api-key"),
    ("rolekey", "api-key"),
    ("accountkey", "secret"),
    ("storagekey", "secret"),
    ("subscriptionkey", "api-key"),
    ("licensekey", "secret"),
    ("serverkey", "secret"),
    ("webhookkey", "secret"),
    ("writekey", "api-key"),
    ("sharedkey", "secret"),
    ("hmackey", "secret"),
    ("secret", "secret"),
    ("credential", "secret"),
    ("credentials", "secret"),
    ("authorization", "authorization"),
)
# Tokens that turn pages or name a request open nothing.
_HARMLESS = (
    *("nexttoken", "pagetoken", "continuationtoken", "synctoken", "cursortoken", "clienttoken"),
    *("requesttoken", "canceltoken", "cancellationtoken", "publickeytoken", "oldpwd"),
    *("padtoken", "eostoken", "bostoken"),
)


def kind_of_name(name: str) -> "str | None":
    """Return the kind of credential that a key, variable or option is named after, if it is."""
    if len(name) > 100:
        return None
    bare = "".join(filter(str.isalpha, name)).lower()
    if bare.endswith(_HARMLESS):
        return None
    for ending, kind in _NAMES:
        if bare.endswith(ending):
            return kind
    # The end of longer words too: only as a word of its own.
    if name.endswith(("_pass", "-pass", "_PASS", "Pass")) or name.lower() == "pass":
        return "password"
    return None


def kind_of_value(name: str, value: str) -> "str | None":
    """Return the kind of credential that a named value is, if it is one."""
    kind = kind_of_name(name)
    if kind is None or is_credible(value) or (kind == "password" and is_password(value)):
        return kind
    # Many things have a UUID; of tokens only those of an environment open something.
    return kind if is_uuid(value) and (kind != "token" or name.isupper()) else None


def is_placeholder(value: str) -> bool:
    """Tell whether a value stands for a secret and is none: a word, a template, a reference."""
    folded = value.lower()
    return (
        folded in _ORDINARY
        or value[:1] in "$<{%@"
        or len(set(value)) < 3
        or any(mark in folded for mark in _PLACEHOLDERS)
    )


def is_uuid(value: str) -> bool:
    """Tell whether a value is a UUID, which names things and opens none."""
    parts = value.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and _HEX.issuperset("".join(parts))


def is_hex(value: str) -> bool:
    """Tell whether a value has hexadecimal digits only."""
    return _HEX.issuperset(value)


def is_credible(value: str, *, bare: bool = False) -> bool:
    """Tell whether a value is random enough to be a credential.

    A value with quotes around it is a literal; a `bare` one may be code and must be more random.
    """
    if not _SHORTEST <= len(value) <= _LONGEST or is_placeholder(value) or is_uuid(value):
        return False
    if not value.rstrip(_DIGITS).strip(_WORD) or len(set(value)) < 6 or len(value.split()) > 1:
        return False
    if _is_address(value) or (not _CODE.isdisjoint(value) and (bare or not _is_jumble(value))):
        return False
    if bare and (_names_itself(value) or _is_attribute(value)):
        return False
    classes = value.translate(_CLASSES)
    digits, letters = classes.count("d"), classes.count("l") + classes.count("u")
    strong = not _STRONG.isdisjoint(value)
    if letters < 3 or not (digits or strong):
        return False
    if strong and not (bare and "=" in value.rstrip("=")):
        return digits > 0 or (not bare and value.lower() != value != value.upper())
    return sum(map(classes.count, _CHANGES)) >= (4 if bare else 3)


def is_password(value: str) -> bool:
    """Tell whether a value that is named a password is one, however simple: letters and a digit."""
    classes = set(value.translate(_CLASSES))
    return (
        _SHORTEST_PASSWORD <= len(value) <= _LONGEST
        and "d" in classes
        and not classes.isdisjoint("lu")
        and not (is_placeholder(value) or _names_itself(value) or _is_address(value))
        and len(value.split()) == 1
        and _CODE.isdisjoint(value)
    )


def is_word_for_password(value: str) -> bool:
    """Tell whether a value in an environment is a password: there even words are."""
    plain = value.replace("-", "").isalpha() and len(value) >= _SHORTEST and not value.isupper()
    said = value in _SAID_OF_PASSWORDS or is_placeholder(value) or _names_itself(value)
    return is_password(value) or is_plain_password(value) or (plain and not said)


def is_plain_password(value: str) -> bool:
    """Tell whether a value is a word that somebody took for a password, and no type, text or code.

    Only where nothing but a password can stand: a name in code looks just like it.
    """
    letters = value.replace("-", "")
    return (
        _SHORTEST_PASSWORD <= len(value) <= _LONGEST_WORD
        and letters.isalpha()
        and letters.isascii()
        and letters.islower()
        and value not in _SAID_OF_PASSWORDS
        and not (is_placeholder(value) or _names_itself(value))
    )


def _names_itself(value: str) -> bool:
    folded = value.lower().replace("_", "")
    return any(ending in folded for ending, _ in _NAMES)


def _is_jumble(value: str) -> bool:
    """Tell whether a value has many signs that neither code nor text has together."""
    return len(_STRONG.intersection(value)) > 2


def _is_attribute(value: str) -> bool:
    """Tell whether a value is the name of something in something else, as in code."""
    *places, name = value.split(".")
    return len(name) > 3 and name.isalpha() and bool(places) and all(map(str.isidentifier, places))


def _is_address(value: str) -> bool:
    path = value.startswith(("/", "./", "../", "~/")) and value.count("/") > 1
    return path or "." in value.partition("@")[2]


def is_user_and_password(value: str) -> bool:
    """Tell whether base64 text holds `user:password`, as Basic authorisation sends it."""
    from binascii import Error, a2b_base64

    try:
        text = a2b_base64(value + "=" * (-len(value) % 4)).decode()
    except (Error, ValueError):
        return False
    user, colon, password = text.partition(":")
    return bool(colon and len(user + password) > 2) and text.isprintable()


def is_private_key(value: str) -> bool:
    """Tell whether base64 text holds the beginning of a private key, as a kubeconfig has it."""
    from binascii import Error, a2b_base64

    try:
        return b"PRIVATE KEY" in a2b_base64(value[:80])
    except (Error, ValueError):
        return False


def is_snowflake(value: str) -> bool:
    """Tell whether base64 text holds a number of 17 to 20 digits, as Discord's ids are."""
    from binascii import Error, a2b_base64

    try:
        digits = a2b_base64(value + "=" * (-len(value) % 4))
    except (Error, ValueError):
        return False
    return digits.isdigit() and 16 < len(digits) < 21
