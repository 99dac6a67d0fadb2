//! Sources that attack whoever compiles them, for the tests of the sandbox and of the judge.

/// Rust that reads a file of the host.
pub(crate) const RUST_INCLUDE: &str = "fn main() { print!(\"{}\", include_str!(\"/etc/passwd\")); }";

/// C++, each with a name: none of it becomes a program.
pub(crate) fn cpp() -> [(&'static str, String); 6] {
    let templates = "template<int N> struct A { static const int v = A<N - 1>::v + A<N - 2>::v; };\n\
                     int main() { return A<800000>::v; }";
    // Each of its own: the same name is complained about once.
    let errors: String = (0..20_000).map(|number| format!("nothing{number} + 1;\n")).collect();
    [
        ("templates", templates.into()),
        ("endless include", "#include \"/dev/zero\"\nint main() {}".into()),
        ("include of the host", "#include \"/etc/passwd\"\nint main() {}".into()),
        ("incbin of the host", "asm(\".incbin \\\"/etc/passwd\\\"\");\nint main() {}".into()),
        ("huge array", "char huge[1L << 40] = {1};\nint main() { return huge[5]; }".into()),
        ("flood of errors", format!("int main() {{\n{errors}}}")),
    ]
}
