//! Edits that can be switched: the answer stands in the program, and whoever starts it says whether it is taken away.
//! Many answers then need one build.

/// Names the answer that is taken away, in the environment of a test program.
pub(super) const VARIABLE: &str = "SEALANE_TAKEN_AWAY";

/// The source with both sides of an edit, if it has one of the forms that can be switched: a condition becomes another,
/// a statement becomes others, a variable gets another value, something is always true or never.
pub(super) fn switched(source: &str, find: &str, replace: &str, number: usize) -> Option<String> {
    let (before, rest) = source.split_once(find)?;
    if rest.contains(find) || is_in_const_function(before) {
        return None;
    }
    let away = format!("std::env::var_os({VARIABLE:?}).is_some_and(|it| it == \"{number}\")");
    let begins_line = before.rsplit('\n').next().is_some_and(|line| line.trim().is_empty());
    let both = condition(find, replace, &away)
        .or_else(|| value(find, replace, &away))
        .or_else(|| statement(find, replace, &away).filter(|_| begins_line))
        .or_else(|| truth(find, replace, &away))?;
    Some(format!("{before}{both}{rest}"))
}

/// `if this {` or `if that {`, and whatever follows is the same.
fn condition(find: &str, replace: &str, away: &str) -> Option<String> {
    let split = |text: &str| {
        let (condition, body) = text.strip_prefix("if ")?.split_once(" {")?;
        (!condition.contains("let ")).then(|| (condition.to_owned(), body.to_owned()))
    };
    let ((answered, body), (taken, same)) = (split(find)?, split(replace)?);
    (body == same).then(|| format!("if (if {away} {{ {taken} }} else {{ {answered} }}) {{{body}"))
}

/// `let name = this;` or `let name = that;`.
fn value(find: &str, replace: &str, away: &str) -> Option<String> {
    let split = |text: &str| {
        let (name, value) = text.strip_prefix("let ")?.strip_suffix(';')?.split_once(" = ")?;
        // Two closures have two types.
        let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && !value.contains(';')
            && !value.starts_with('|');
        plain.then(|| (name.to_owned(), value.to_owned()))
    };
    let ((name, answered), (same, taken)) = (split(find)?, split(replace)?);
    (name == same).then(|| format!("let {name} = if {away} {{ {taken} }} else {{ {answered} }};"))
}

/// `this;` or other statements.
fn statement(find: &str, replace: &str, away: &str) -> Option<String> {
    let one = find.ends_with(';') && find.matches(';').count() == 1 && !find.contains(['{', '}']);
    let plain = find.starts_with(|first: char| first.is_ascii_lowercase()) && !find.starts_with("let ");
    let statements = replace.is_empty() || replace == "{}" || replace.ends_with(';');
    (one && plain && statements).then(|| format!("if {away} {{ {replace} }} else {{ {find} }}"))
}

/// `this`, which is true or false, and always or never then.
fn truth(find: &str, replace: &str, away: &str) -> Option<String> {
    let whole = !find.contains([';', '{', '}']) && !find.contains("=>");
    (whole && matches!(replace, "true" | "false"))
        .then(|| format!("(if {away} {{ {replace} }} else {{ {find} }})"))
}

/// Nothing is asked of the environment while a program is compiled.
fn is_in_const_function(before: &str) -> bool {
    let head = before.lines().rev().find(|line| line.contains("fn "));
    head.is_some_and(|line| line.contains("const "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAY: &str = "std::env::var_os(\"SEALANE_TAKEN_AWAY\").is_some_and(|it| it == \"7\")";

    fn both(source: &str, find: &str, replace: &str) -> Option<String> {
        switched(source, find, replace, 7).map(|both| both.replace(AWAY, "AWAY"))
    }

    #[test]
    fn conditions_values_statements_and_truths_are_switched() {
        assert_eq!(
            both("fn f() {\n    if a > b {\n", "if a > b {", "if false {").unwrap(),
            "fn f() {\n    if (if AWAY { false } else { a > b }) {\n"
        );
        assert_eq!(
            both("if a {\n    return;\n}", "if a {\n    return;", "if b {\n    return;").unwrap(),
            "if (if AWAY { b } else { a }) {\n    return;\n}"
        );
        assert_eq!(
            both("    let known = a(b)?;\n", "let known = a(b)?;", "let known = c;").unwrap(),
            "    let known = if AWAY { c } else { a(b)? };\n"
        );
        assert_eq!(
            both("    check(a)?;\n", "check(a)?;", "").unwrap(),
            "    if AWAY {  } else { check(a)?; }\n"
        );
        assert_eq!(
            both("    check(a)?;\n", "check(a)?;", "let _ = a;").unwrap(),
            "    if AWAY { let _ = a; } else { check(a)?; }\n"
        );
        assert_eq!(
            both("a.filter(|it| it < b)", "it < b", "true").unwrap(),
            "a.filter(|it| (if AWAY { true } else { it < b }))"
        );
    }

    #[test]
    fn everything_else_is_built_by_itself() {
        for (source, find, replace) in [
            ("if let Some(a) = b {", "if let Some(a) = b {", "if let None = b {"),
            ("if a {\n    one();", "if a {\n    one();", "if a {\n    other();"),
            ("let a = b;", "let a = b;", "let c = b;"),
            ("let a = b;", "let a = b;", "let a = c; let _ = b;"),
            ("let a = b(c);", "b(c);", "d;"),
            ("let a = b;", "let a = b;", ""),
            ("let a = |b| b;", "let a = |b| b;", "let a = |_| 0;"),
            ("a.b(c)", "a.b(c)", "d"),
            ("check(a)?;\ncheck(a)?;", "check(a)?;", ""),
            ("pub const fn f() {\n    if a {\n", "if a {", "if false {"),
        ] {
            assert_eq!(both(source, find, replace), None, "{find}");
        }
    }
}
