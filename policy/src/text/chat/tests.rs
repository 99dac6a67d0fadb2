use serde_json::json;

use super::*;

fn render(source: &str, kwargs: Value) -> Result<String, ChatError> {
    let Value::Object(kwargs) = kwargs else { panic!("kwargs must be an object") };
    ChatTemplate::new(source, BTreeMap::new())?.render(&json!([]), &kwargs)
}

fn text(source: &str, kwargs: Value) -> String {
    render(source, kwargs).unwrap()
}

#[test]
fn white_space_is_trimmed_as_transformers_does() {
    let source = "A\n    {% if true %}\n  b\n    {% endif %}\n{{ '\\n' }}{#- c -#}\nend\n";
    assert_eq!(text(source, json!({})), "A\n  b\n\nend");
}

#[test]
fn values_print_as_in_python() {
    let kwargs = json!({"f": 1e16, "n": null, "t": true, "l": [1.0, "a"]});
    let source =
        "{{ f }} {{ n }} {{ t }} {{ l }} {{ 'x' ~ f }} {{ l|join('-') }} {{ missing }}|{{ f|string }}";
    assert_eq!(text(source, kwargs), "1e+16 None True [1.0, 'a'] x1e+16 1.0-a |1e+16");
}

#[test]
fn python_methods_and_tests_are_there() {
    let kwargs = json!({"s": " <think>a</think>b ", "d": {"k": 1}, "l": [3, 1, 2]});
    let source = "{{ s.split('</think>')[-1].strip() }}{{ s.strip().startswith('<') }}{{ d.items()|list }}\
                  {{ d.get('x', 7) }}{{ s is sequence }}{{ l[::-1] }}{{ l[1:] + [9] }}{{ s|trim|length }}\
                  {{ 'aXb'.replace('X', '--') }}{{ ['a', 'b']|map('upper')|join }}{{ 1 + 2 }}{{ ', '.join(['p', 'q']) }}\
                  {{ none is iterable }}{{ [d]|map(attribute='k')|join('+') }}";
    let want = "bTrue[('k', 1)]7True[2, 1, 3][1, 2, 9]17a--bAB3p, qFalse1";
    assert_eq!(text(source, kwargs), want);
}

#[test]
fn loops_break_and_namespaces_keep_their_values() {
    let source = "{% set ns = namespace(n=0) %}{% for i in range(10) %}{% if i == 3 %}{% break %}{% endif %}\
                  {% if i == 1 %}{% continue %}{% endif %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}";
    assert_eq!(text(source, json!({})), "2");
}

#[test]
fn generation_blocks_print_what_is_within() {
    let source = "{% set x = 'a' %}{% for m in [1, 2] %}\n    {% generation %}\n{% set x = m %}{{ x }}\n    {%- endgeneration %}\n{% endfor %}{{ x }}";
    assert_eq!(text(source, json!({})), "12a", "what is set within ends with the block");
    assert_eq!(text("a{% generation %} b {% endgeneration %}c", json!({})), "a b c");
    assert!(render("{% generation %}", json!({})).is_err());
}

#[test]
fn texts_and_lists_are_repeated_as_in_python() {
    let kwargs = json!({"n": 3, "l": [1, "a"]});
    let source = "{{ '=' * 20 }} {{ n * '-' }} {{ 2 * 3 * n }} {{ l * 2 }} {{ 'x' * -1 }}|{{ 1.5 * 2 }} {{ 7 - 2 * n }} {{ 9 // 2 * 2 }}";
    let want = "==================== --- 18 [1, 'a', 1, 'a'] |3.0 1 8";
    assert_eq!(text(source, kwargs), want);
    assert!(render("{{ 'a' * 1.5 }}", json!({})).is_err());
    assert!(render("{{ 'a' * 'b' }}", json!({})).is_err());
}

/// What the templates of SmolLM2, Qwen3, Qwen2.5 and Llama 3 ask of an engine.
#[test]
fn idioms_of_published_templates() {
    let kwargs =
        json!({"add_generation_prompt": true, "enable_thinking": false, "date_string": "26 Jul 2024"});
    let source = "{%- set ns = namespace(last=-1) %}{%- for m in msgs[::-1] %}{%- set index = (msgs|length - 1) - loop.index0 %}\
                  {%- if ns.last < 0 and m.role == 'user' and m.content is string and not(m.content.startswith('<tool>') and m.content.endswith('</tool>')) %}\
                  {%- set ns.last = index %}{%- endif %}{%- endfor %}{{ ns.last }}\
                  {%- for m in msgs %}{%- if loop.first and m['role'] != 'system' %}{{- '<|im_start|>system\\nbe kind<|im_end|>\\n' }}{%- endif %}\
                  {%- if '</think>' in m.content %}{%- set c = m.content.split('</think>')[-1].lstrip('\\n') %}{%- else %}{%- set c = m.content|trim %}{%- endif %}\
                  {{- '<|im_start|>' + m.role + '\\n' + c + '<|im_end|>' + '\\n' }}{%- endfor %}\
                  {%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}\
                  {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}\
                  {%- if not date_string is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- endif %}{{- date_string }}";
    let mut all = kwargs;
    all["msgs"] = json!([{"role": "user", "content": " 1+1? "}, {"role": "assistant", "content": "<think>a</think>\n2"}]);
    let want = "0<|im_start|>system\nbe kind<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n\
                <|im_start|>assistant\n<think>\n\n</think>\n\n26 Jul 2024";
    assert_eq!(text(source, all), want);
}

#[test]
fn a_template_can_refuse_and_says_why() {
    let error = render("{{ raise_exception('roles must alternate') }}", json!({})).unwrap_err();
    assert!(error.to_string().contains("roles must alternate"), "{error}");
    assert!(matches!(render("{% if %}", json!({})), Err(ChatError::Syntax(_))));
    assert!(matches!(render("{{ missing.field }}", json!({})), Err(ChatError::Render(_))));
}

#[test]
fn the_time_is_the_callers() {
    let source = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% else %}none{% endif %}";
    let template = ChatTemplate::new(source, BTreeMap::new()).unwrap();
    assert_eq!(template.render(&json!([]), &Map::new()).unwrap(), "none");
    let now = ChatTime::from_unix_seconds(1_721_952_000);
    assert_eq!(template.render_at(&json!([]), &Map::new(), now).unwrap(), "26 Jul 2024");
}

#[test]
fn named_templates_of_a_config() {
    let config = json!({"chat_template": [
        {"name": "default", "template": "plain {{ bos_token }}"},
        {"name": "tool_use", "template": "tools"},
    ]});
    let special: BTreeMap<_, _> = [("bos_token".to_owned(), "<s>".to_owned())].into();
    let template = ChatTemplate::from_config(&config, special).unwrap().unwrap();
    assert_eq!(template.render(&json!([]), &Map::new()).unwrap(), "plain <s>");
    let kwargs = json!({"tools": [1]}).as_object().unwrap().clone();
    assert_eq!(template.render(&json!([]), &kwargs).unwrap(), "tools");
    assert!(ChatTemplate::from_config(&json!({}), BTreeMap::new()).unwrap().is_none());
    assert!(matches!(
        ChatTemplate::from_config(&json!({"chat_template": 3}), BTreeMap::new()),
        Err(ChatError::Form)
    ));
}

#[test]
fn hostile_templates_are_stopped() {
    let doubling = "{% set x = 'aaaaaaaa' %}".to_owned() + &"{% set x = x ~ x %}".repeat(60);
    let capturing =
        "{% set x = 'aaaaaaaa' %}".to_owned() + &"{% set x %}{{ x }}{{ x }}{% endset %}".repeat(60);
    let lists = "{% set x = [1] %}".to_owned() + &"{% set x = x + x %}".repeat(60) + "{{ x|length }}";
    let nested = "{% set x = 'a' %}".to_owned() + &"{% set x = [x, x] %}".repeat(60) + "{{ x|tojson }}";
    let printed = nested.replace("|tojson", "");
    let joined = nested.replace("|tojson", "|join");
    for source in [
        doubling.as_str(),
        &doubling.replace("~", "+"),
        &capturing,
        &lists,
        &nested,
        &printed,
        &joined,
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(50) %}{% set ns.x = ns.x|replace('a', ns.x) %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(50) %}{% set ns.x = ns.x.join(['a', 'b', ns.x]) %}{% endfor %}",
        "{{ 'a\\na'|indent(9999999999) }}",
        "{{ '{:>9999999999}'.format(1) }}",
        "{{ '%9999999999d'|format(1) }}",
        "{{ range(9223372036854775807, -9223372036854775807, -1)|list }}",
        "{{ [1]|tojson(indent=99999999) }}",
        "{{ 'a' * 99999999 }}",
        "{{ [1] * 99999999 }}",
        "{{ 2 ** 9 }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(50) %}{% set ns.x = ns.x * 9 %}{% endfor %}",
        "{% include 'other' %}",
    ] {
        let shown = &source[..source.len().min(120)];
        assert!(render(source, json!({})).is_err(), "{shown} was rendered");
    }
    let long = "a".repeat(MAX_TEMPLATE_BYTES + 1);
    assert!(matches!(render(&long, json!({})), Err(ChatError::TooLarge { .. })));
}

#[test]
fn deep_nesting_neither_overflows_the_stack_nor_prints() {
    let source =
        "{% set ns = namespace(x=[]) %}{% for i in range(50000) %}{% set ns.x = [ns.x] %}{% endfor %}";
    assert_eq!(text(source, json!({})), "");
    assert!(render(&format!("{source}{{{{ ns.x }}}}"), json!({})).is_err());
}
