#include "libdistill/jinja/template.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/catch.h"

namespace distill {
namespace {

absl::StatusOr<std::string> Render(const std::string& source) {
  auto parsed = jinja::Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  auto output = parsed->Render({{"n", jinja::Value(3)}});
  if (!output.ok()) return output.status();
  return output->text;
}

void CheckFails(const std::string& source, const std::string& message) {
  const absl::Status status = Render(source).status();
  INFO(source.substr(0, 200) << "\n" << status);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(status.message(), message));
}

std::string Repeat(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("errors name the line and the construct") {
  CheckFails("a\n\n{{ n | frobnicate }}", "line 3: the filter 'frobnicate' is not supported; supported: abs");
  CheckFails("{{ n is frob }}", "line 1: the test 'frob' is not supported");
  CheckFails("\n{% include 'x' %}", "line 2: {% include %} is not supported here; supported: if, for");
  CheckFails("{% for x in [1] %}\n{{ nope.a }}\n{% endfor %}", "line 2, {{ }}: 'nope' is undefined");
  CheckFails("\n{% set x = n + 'a' %}",
             "line 2, {% set %}: '+' is not supported between 'int object' and 'str object'");
  CheckFails("{{ raise_exception('roles must alternate') }}",
             "the template refuses these messages: roles must alternate");
  CheckFails("{% if n %}\n", "the template ends before {% endif %}");
  CheckFails("{% generation %}{% generation %}{% endgeneration %}{% endgeneration %}", "another {% generation %}");
  CheckFails("{% set x %}{% generation %}{% endgeneration %}{% endset %}", "{% generation %} within a macro");
  CheckFails("{{ n", "line 1: a tag is not closed by }}");
}

TEST_CASE("hostile templates end in an error, not in a crash") {
  CheckFails("{{ " + Repeat("(", 100000) + Repeat(")", 100000) + " }}", "nested too deep");
  CheckFails("{{ " + Repeat("not ", 100000) + "n }}", "nested too deep");
  CheckFails("{{ " + Repeat("-", 100000) + "1 }}", "nested too deep");
  CheckFails("{{ n" + Repeat(" + n", 100000) + " }}", "too long");
  CheckFails("{{ n" + Repeat(".a", 100000) + " }}", "too long");
  CheckFails(Repeat("{% if n %}", 100000), "nested too deep");
  CheckFails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion is too deep");
  CheckFails("{% set ns = namespace(x='ab') %}{% for i in range(90) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
             "64 MiB");
  CheckFails("{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}",
             "256 MiB");
  CheckFails("{% set ns = namespace(x=[]) %}{% for i in range(900) %}{% set ns.x = [ns.x] %}{% endfor %}",
             "nested too deep");
  CheckFails("{% set ns = namespace(x=[]) %}{% for i in range(900) %}{% set ns.x = [ns.x.count] %}{% endfor %}",
             "nested too deep");
  CheckFails(
      "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}"
      "{% endfor %}",
      "runs for too long");
  CheckFails("{{ 'x' * 99999999999 }}", "64 MiB");
  CheckFails("{{ [1] * 99999999999 }}", "million");
  CheckFails("{{ 9223372036854775807 + 1 }}", "too large");
  CheckFails("{{ 99999999999999999999 }}", "too large");
  CheckFails("{{ 2 ** 99999999999 }}", "too large");
  CheckFails("{{ range(99999999999) }}", "longer");
  CheckFails("{{ ('a' * 30000).replace('a', 'b' * 30000) }}", "64 MiB");
}

TEST_CASE("namespaces that hold one another are let go") {
  CHECK(Render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a.b.a.b is defined }}")
            .value() == "True");
}

TEST_CASE("every prefix of a template is parsed or refused") {
  const std::string source =
      "{%- macro m(a, b='x') -%}{{ a ~ b }}{%- endmacro -%}{# c #}{% raw %}{{ }}{% endraw %}{% for x in [1, 2.5, "
      "'a\\n']"
      " if x is number %}{{ m(x, b={'k': (x, -1)}['k'][0] | string) }}{% else %}{% set ns = namespace(a=n) %}{% endfor "
      "%}"
      "{% generation %}{{ 'yes' if n > 2 and not n == 4 else none }}{% endgeneration %}";
  CHECK(Render(source).value() == "{{ }}112.52.5yes");
  for (size_t size = 0; size < source.size(); ++size) {
    const auto result = Render(source.substr(0, size));
    CHECK((result.ok() || result.status().code() == absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace distill
