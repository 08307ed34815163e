"""Patterns of Oniguruma's syntax, and what `tokenizers` makes of texts by them: where it splits, and what it replaces."""
import json
import random

from tokenizers import Regex, normalizers, pre_tokenizers

DRAWN = 1500
TEXTS = [
    "Hello, world! It's 12345 o'clock; they'LL've DONE x2y_z.", "aaab abab aab\nb\n\nab  \r\n\tcd\r", "HelloWorldFoo barBaz42Qux",
    "\u4f60\u597d\u4e16\u754c\u3042\u3044\u30ab\u30bf\u30fc \u041f\u0440\u0438 \u0391\u03b2\u03c2 caf\u00e9 cafe\u0301 \u00df\u00dfss\u017fS K\u212ak \u00e5\u212b \ufb01 fi st\ufb06",
    "\u00b2\u00b3\u00b9\u00bc\u0661\u0662 \u2167 \u24d0\u203f_ \u200d\u00a0\u0085\u2028\u3000 $+<=>^`|~ \u00a9\u00a7\u20ac", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea\U0001f1eb \u1100\u1161\u11a8 e\u0301\u0302x", "-]a[b&&c^d\\e{1,2}(f)|g*+?.$#/ :foo:", "\x00\x01\x07\x08\x1b\x7f\x0b\x0c\x1c", "ssSSfFaAbB kK 0-9a-f,DEADbeef",
]
# What each feature is, one by one; those that Oniguruma refuses are among them.
PATTERNS = r"""
\p{Han}+   \p{sc:Han}   \p{Hiragana}|\p{Katakana}+   \p{Greek}   \p{greek}   \p{Grek}   \P{Han}+   \p{^Han}+   \P{^Han}   \p{Latin}+   \p{Common}+   \p{Inherited}
\p{L}+   \p{ L }   \p{Letter}   \p{lowercase_letter}   \p{Uppercase Letter}+   \p{LC}+   \pL+   \p   \p{   \p{L   \p{}   \p{^}   \p{Foo}   \p{Xan}   \p{Xwd}   \p{L&}   \p{Any}+   \p{Assigned}+   \p{L|M}   \p{^^L}
\p{Alphabetic}+   \p{Emoji}   \p{Extended_Pictographic}   \p{White_Space}+   \p{ID_Start}+   \p{XID_Start}+   \p{Ideographic}+   \p{Dash}   \p{Hex_Digit}+   \p{Word}+   \P{Word}+   \p{^word}+   [\p{Word}]+   \p{Punct}+   \p{Print}+   \p{Graph}+   [^\p{Graph}]+   \p{Blank}+
a{,3}   a{,3}?   a{3,1}   a{3,1}a   a{1,3}+   a{1,3}?   a{2}?   a{2}??   a{2}+   a{,}   a{   a{1   a{1,   a{ 1}   a{,5   a{0}   a{0,0}b   x{65536}   x{100001}   x{99999999999999999999}   {2}   a|{2}   a++b   a*+a   a?+a   a+?b   a??b   a**   a+*   a?*   a*?   a+?+   a??+   a+++   a*+*   a?{2}   (?:a{1,2}){2}   a{1,2}{2}   (?:a+)+b   (?:a*)*b   (a|ab)(c|bcd)?   (?:a|ab)++b   (?>a|ab)b   (?>a+)b
\A.   .\z   .\Z   \z   \Z   \A   ^   $   ^.   .$   ^$   \n$   \Aa|\Gb   \G\w   \b   \B   \b\w+\b   \w\B   \bo   (?m).+   (?m:a.b)   .+   (?-m:.)+   (?m)(?-m).   \N+   \O+   \R   \R+   \r\R   \X   \X+   a\Kb   \w\K\d   x*   a|   |a   ()   (?:)   (?=[A-Z])   (?<=[a-z])(?=[A-Z0-9])   (?=\d)|\s+   \d*   (?!a)
\h+   \H+   [\h]+   [^\h]+   [\H]+   [\h_-]+   \d+   \D+   [\d]+   [\D]+   \s+   \S+   [\s]+   [^\s]+   [\S]+   [\S\n]+   [^\S]+   [^\S\n]+   \w+   \W+   [\w]+   [\W]+   [^\w]+   [^\W]+   [\W_]+   [^\W_]+   [\w&&[^\d]]+   [\W&&\S]+
[a-z&&[^aeiou]]+   [^a-z&&[^aeiou]]+   [a-z&&b-y&&c-x]+   [a&&]   [&&a]   [^&&a]+   [a&b]+   [a&&&b]   [a-&&-z]   [a&&[^b]-c]   [[a]-c]+   [a[b[c]]]+   [a[^b]]+   [^a[^b]]+   [\p{L}&&\p{Lu}]+   [\p{L}&&[^\p{Latin}]]+   [[^a]&&[^b]]+   [\p{L}[0-9]]+   [[:alpha:]&&[^a-m]]+
[[:alpha:]]+   [[:^alpha:]]+   [[:alnum:]_]+   [[:punct:]]+   [[:^punct:]]+   [[:space:]]+   [[:upper:]]+   [[:lower:]]+   [[:digit:]]+   [[:xdigit:]]+   [[:word:]]+   [[:^word:]]+   [[:cntrl:]]+   [[:graph:]]+   [[:^graph:]]+   [[:print:]]+   [[:^print:]a]+   [[:blank:]]+   [[:ascii:]]+   [^[:ascii:]]+   [[:foo:]]   [[:foo]   [[:foo]]   [[:alpha:]   [:alpha:]+   [a[:digit:]b]+   [[:Alpha:]]   [[::]]
[]a]   []   [^]a]+   [a-\d]   [a-c-e]+   [\w-a]   [\w-]+   [-a]+   [a-]+   [--x]+   [!--]+   [+--]+   [z-a]   [[]   [a[]   [a   [a-   []-a]+   [\]a]+   [\[a]+   [a\-z]+   [\\]   [\b]+   [\k\g\R\X\N\z\A]+   [\n-\r]+   [\x41-\x{43}]+   [\x]   [\x{}]+   [\u0041-\u0044]+   [\u00]   [\xE4\xBD\xA0]   [\xE4\275\xA0]   [^\n]+   [.]+   [*+?]+   [^^]+   [a^]+   [#$]+   [a-[b]]   [\d-\w]   [[a-z]-\d]
\u4f60   \u4F60\u597d   \x41   \x{41}   \x{4f60}   \x{1F468}   \xE4\xBD\xA0   \xE4   \344\275\240   \x   \u   a\c   \xg   \x{   \x{}   \u41   \u00e   \o{101}   \o   \0   \08   \101   \n   \t+   \e   \a   \v   \f   \cA   \C-a   \M-a   \ca   \C   \C-   \M   \c   \y   \Y   \g   \k   \i   \Q.\E   \ü   \.   \-   \/   \'   \`   \<   \>   \_   \%   \@   \8   \18   \400
(a)\1   (a)(b)\2\1   \1(a)   (a\1)   \1   \2(a)   (?<n>a)\k<n>   (?'n'a)\k'n'   (?<n>a)(b)\2   (?<n>a)\1   (a)\k<1>   (a)\k<-1>   (a)\k<+1>   \k<n>   \k<n   (?<n>a)(?<n>b)   (?<é>a)\k<é>   (?<1>a)   (?<>a)   (?<n   (?<-n>a)   (?< n>a)   (?<n)>a)   (?P<n>a)   (?<n>[a-z])\k<n>   (\w)\1
(?i:'s|'t|'re|'ve|'m|'ll|'d)   (?i)it's   (?i:k)+   (?i:s)+   (?i:[k])+   (?i:[a-z])   (?i:[^k])+   (?i:[^a-jl-z])+   (?i:\p{Lu})+   (?i:[^\p{Lu}])+   (?i:\P{Lu})+   (?i:[0-9a-f])+   (?i:[a-eg-rt-z&&[^k]])+   a(?i)b|c   (?i)a(?-i)b   (?i:a(?-i:b)c)   (?i-m:A)   (?-i:A)   (?mix-mix:a)   (?i:hello|WORLD)   (?i:\x41)   (?i:\u0041)   (?i:σ)+   (?i:å)+   (?i:ß)   (?i:ss)   (?i:fi)   (?i:st)   (?i:[ß])   (?i:[^ß])+   (?i:s+s)   (?i:s(?:s))   (?i:s{2})   (?i:[f]i)   (?i:a[^b]c?)   (?i:\w+)   (?i:\s+)   (?i:[[:upper:]])   (?i:[[:^upper:]])   (?i:[ad-e])+   (?i:x|[.,!])   (?i:и)+
(?s)a   (?s:a)   (?x) a b # c   (?x:a +)   (?x)[a b]+   (?x) a\ b   (?x: (a) # )
)   (?n:a)   (?a:a)   (?)   (?z)   (?i   (?   (   (?:   (?<   )   a)   (?#c)a+   a(?#c)+   (?#   (?#a\)b)a   (?i)*   (?:*)   (*a)   (+a)   *a   a|*b   ^*   \b+   (?=a)*b   (?:^)*   (?:^|a)*   (?:\b)?a   (?:a|\b)+   (?i:(?=a))+   (a*)*   ()*   (?:)*   (?>a)*   (|a)+   (a|)+   \X*   \R*   a\K*
(?<=a)b   (?<!a)b   (?<=a|bc)d   (?<!a|bc)d   (?<=\s)\w+   (?<![\p{L}\d])\d+   (?<=^)a   (?<=\b)a   (?<!\A)a   (?<=\z)a   (?<=(?=a))a   (?<=(?!a))a   (?<!(?=a))a   (?<=(?<=a)a)b   (?<=(?<!b)a)b   (?<!(?<!b)a)b   (?<=(a))b   (?<!(a))b   (?<!(?<n>a))b   (?<=a{2})b   (?<=[^a-z])[A-Z]   (?<=[a&&\w])b   (?<=(?:ab|ba))\w   (?<=a+)b   (?<=ab?)c   (?<=a\K)b   (?=a\Kb)   (?=a)\w+   \w+(?=!)   \w+(?!\w|!)   (?!\s)\W   (?=(a))a\1   (?<=\p{Han})\p{Han}   (?<=)a   (?<!)a
(?~ab)   (?{a})   (*FAIL)   (?(?=a)ab|c)   (?<a>x)\g<a>   (?W:\w+)   (?y{g})a   (?C)a   (?I)a
"""
UNITS = ["a", "b", "\\w", "\\d", "\\s", "\\W", ".", "[a-c]", "[^a-c]", "[\\w&&[^a]]", "\\p{L}", "\\p{Lu}", "\\P{L}", "[^\\s\\p{L}]", "[[:alpha:]]", "\\h",
         "ab", "\u4f60", "[\\p{Han}a]", "(?:a|b)", "(?:ab|a)", "(a|\\d)", "(?>a|ab)", "(?i:l)", "(?i:[a-d])", "(?i:a|B)",
         "\\R", "[ \\t]", "'", "[\\r\\n]", "[\\S\\n]", "\\N", "(?:a*)", "\\x{62}", "[^\\W\\d]"]
ANCHORS = ["(?=a)", "(?!b)", "(?<=a)", "(?<![a-z])", "(?<=[^\\W\\d]|ab)", "(?!\\S)", "\\b", "\\B", "^", "$", "\\A", "\\Z", "\\z", "\\G", "(?i)", "\\K"]
COUNTS = ["", "", "", "", "", "?", "*", "+", "??", "*?", "+?", "?+", "*+", "++", "{2}", "{1,2}", "{,2}", "{2,}", "{1,2}?", "{2}?", "{2,1}", "{1,2}+", "{2}+", "+*", "?{2}"]


def drawn(rng):
    branches = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        branches.append("".join(rng.choice(ANCHORS) if rng.random() < 0.15 else rng.choice(UNITS) + rng.choice(COUNTS)
                                for _ in range(rng.randrange(1, 5))))
    return "|".join(branches)


def patterns():
    rng = random.Random("patterns")
    return [p for line in PATTERNS.strip().split("\n") for p in line.split("   ")] + [drawn(rng) for _ in range(DRAWN)]


def case(pattern):
    """None: Oniguruma gives up on a text."""
    try:
        regex = Regex(pattern)
    except Exception as error:  # of Oniguruma; it has no class of its own
        return {"pattern": pattern, "error": str(error)}
    split, replace = pre_tokenizers.Split(regex, "isolated"), normalizers.Replace(regex, "\u2581")
    try:
        return {"pattern": pattern, "parts": [[part for part, _ in split.pre_tokenize_str(text)] for text in TEXTS],
                "replaced": [replace.normalize_str(text) for text in TEXTS]}
    except BaseException as error:  # what a panic of Rust becomes
        if "retry-limit" not in str(error):
            raise
        return None


def write_patterns(path):
    """The texts, then a row for each pattern."""
    with open(path, "w", encoding="utf-8") as out:
        out.write(json.dumps({"texts": TEXTS}) + "\n")
        for row in filter(None, map(case, patterns())):
            out.write(json.dumps(row) + "\n")
