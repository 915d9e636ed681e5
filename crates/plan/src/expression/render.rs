//! Renders an expression in the user's syntax, for error messages and metrics.
//!
//! Takes an [`Expression`](E), returns text such as `sf.value["amount"] > 100`. The text is never parsed
//! again.

use super::ScalarFunction;
use super::functions::Syntax;
use crate::{Expression as E, Literal};
use std::fmt::Write;

/// The longest text that is included in a message in full.
const MAX_TEXT_CHARS: usize = 200;

/// The expression in the user's syntax.
#[must_use]
pub fn render(expression: &E) -> String {
    let mut out = String::new();
    write(expression, false, &mut out);
    out
}

/// The same, truncated if it is too long for a message, and prefixed with its line.
#[must_use]
pub fn located(expression: &E, line: Option<&str>) -> String {
    let mut text = render(expression);
    if let Some((cut, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(cut);
        text.push_str("...");
    }
    match line {
        Some(line) => format!("{line} {text}"),
        None => text,
    }
}

fn write(expression: &E, inner: bool, out: &mut String) {
    match expression {
        E::Key => out.push_str("sf.key"),
        E::Value => out.push_str("sf.value"),
        E::Timestamp => out.push_str("sf.timestamp"),
        E::Left => out.push_str("sf.left"),
        E::Right => out.push_str("sf.right"),
        E::Old => out.push_str("sf.old"),
        E::New => out.push_str("sf.new"),
        E::Lit { value } => literal(value, out),
        E::Get { args, name } => after(&args[0], &format!("[{name:?}]"), out),
        E::At { args, index } => after(&args[0], &format!("[{index}]"), out),
        E::Eq { args } => between(args, "==", inner, out),
        E::Ne { args } => between(args, "!=", inner, out),
        E::Lt { args } => between(args, "<", inner, out),
        E::Le { args } => between(args, "<=", inner, out),
        E::Gt { args } => between(args, ">", inner, out),
        E::Ge { args } => between(args, ">=", inner, out),
        E::And { args } => between(args, "&", inner, out),
        E::Or { args } => between(args, "|", inner, out),
        E::Add { args } => between(args, "+", inner, out),
        E::Sub { args } => between(args, "-", inner, out),
        E::Mul { args } => between(args, "*", inner, out),
        E::Div { args } => between(args, "/", inner, out),
        E::FloorDiv { args } => between(args, "//", inner, out),
        E::Mod { args } => between(args, "%", inner, out),
        E::Not { args } => {
            out.push('~');
            write(&args[0], true, out);
        }
        E::IsNull { args } => after(&args[0], ".is_null()", out),
        E::StrLower { args } => after(&args[0], ".str.lower()", out),
        E::StrUpper { args } => after(&args[0], ".str.upper()", out),
        E::StrStrip { args } => after(&args[0], ".str.strip()", out),
        E::StrSplit { args, by: None } => after(&args[0], ".str.split()", out),
        E::StrSplit { args, by: Some(by) } => after(&args[0], &format!(".str.split({by:?})"), out),
        E::Len { args } => after(&args[0], ".len()", out),
        E::StrContains { args, text } => after(&args[0], &format!(".str.contains({text:?})"), out),
        E::StrStartsWith { args, text } => {
            after(&args[0], &format!(".str.startswith({text:?})"), out)
        }
        E::StrEndsWith { args, text } => after(&args[0], &format!(".str.endswith({text:?})"), out),
        E::Cast {
            args,
            to,
            strict: true,
        } => after(&args[0], &format!(".cast({to:?})"), out),
        E::Cast { args, to, .. } => {
            after(&args[0], &format!(".cast({to:?}, strict=False)"), out);
        }
        E::Coalesce { args } => call("sf.coalesce", args, out),
        E::Array { args } => call("sf.array", args, out),
        E::Located { args, .. } => write(&args[0], inner, out),
        E::Call { function, args } => function_call(*function, args, inner, out),
        E::When { args } => {
            out.push_str("sf.when(");
            write(&args[0], false, out);
            out.push_str(").then(");
            write(&args[1], false, out);
            out.push_str(").otherwise(");
            write(&args[2], false, out);
            out.push(')');
        }
        E::Object { names, args } => {
            out.push_str("sf.obj(");
            for (at, (name, arg)) in names.iter().zip(args).enumerate() {
                let _always_fits = write!(out, "{}{name}=", if at > 0 { ", " } else { "" });
                write(arg, false, out);
            }
            out.push(')');
        }
    }
}

fn after(of: &E, what: &str, out: &mut String) {
    write(of, true, out);
    out.push_str(what);
}

fn between(args: &[E; 2], sign: &str, inner: bool, out: &mut String) {
    if inner {
        out.push('(');
    }
    write(&args[0], true, out);
    let _always_fits = write!(out, " {sign} ");
    write(&args[1], true, out);
    if inner {
        out.push(')');
    }
}

fn function_call(function: ScalarFunction, args: &[E], inner: bool, out: &mut String) {
    match (function.signature().written, args) {
        (Syntax::Prefix(sign), [of]) => {
            out.push_str(sign);
            write(of, true, out);
        }
        (Syntax::Infix(sign), [left, right]) => {
            if inner {
                out.push('(');
            }
            write(left, true, out);
            let _always_fits = write!(out, " {sign} ");
            write(right, true, out);
            if inner {
                out.push(')');
            }
        }
        _ if function == ScalarFunction::Format => template(args, out),
        (Syntax::Attribute(name), [of]) => after(of, &format!(".{name}"), out),
        (Syntax::Method(name), [of, rest @ ..]) => {
            write(of, true, out);
            call(&format!(".{name}"), rest, out);
        }
        (
            Syntax::Function(name)
            | Syntax::Method(name)
            | Syntax::Prefix(name)
            | Syntax::Infix(name)
            | Syntax::Attribute(name),
            args,
        ) => {
            call(&format!("sf.{name}"), args, out);
        }
    }
}

fn template(parts: &[E], out: &mut String) {
    let mut form = String::new();
    let mut filled = Vec::new();
    for part in parts {
        match part.bare() {
            E::Lit {
                value: Literal::Str(text),
            } => form.push_str(&text.replace('{', "{{").replace('}', "}}")),
            E::Call {
                function: ScalarFunction::FormatNumber,
                args,
            } => {
                let spelled = match args.get(1).and_then(E::constant) {
                    Some(Literal::Str(spelled)) => spelled,
                    _ => "",
                };
                let _always_fits = write!(form, "{{:{spelled}}}");
                filled.extend(args.first());
            }
            _ => {
                form.push_str("{}");
                filled.push(part);
            }
        }
    }
    let _always_fits = write!(out, "sf.format({form:?}");
    for part in filled {
        out.push_str(", ");
        write(part, false, out);
    }
    out.push(')');
}

fn call(name: &str, args: &[E], out: &mut String) {
    let _always_fits = write!(out, "{name}(");
    for (at, arg) in args.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write(arg, false, out);
    }
    out.push(')');
}

fn literal(value: &Literal, out: &mut String) {
    let _always_fits = match value {
        Literal::Null => write!(out, "None"),
        Literal::Bool(b) => write!(out, "{}", if *b { "True" } else { "False" }),
        Literal::Int(i) => write!(out, "{i}"),
        Literal::Float(x) => write!(out, "{x:?}"),
        Literal::Str(s) => write!(out, "{s:?}"),
    };
}
