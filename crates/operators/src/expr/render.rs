//! An expression as its user would write it, for error messages and metrics.
//!
//! Takes an [`Expression`], gives text such as `sf.value["amount"] > 100`. Never parsed again.

use std::fmt::Write;
use stoatflow_plan::{Expression as E, Literal};

pub(super) fn render(expression: &E) -> String {
    let mut out = String::new();
    write(expression, false, &mut out);
    out
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
            after(&args[0], &format!(".str.starts_with({text:?})"), out)
        }
        E::StrEndsWith { args, text } => after(&args[0], &format!(".str.ends_with({text:?})"), out),
        E::Cast { args, to } => after(&args[0], &format!(".cast({to:?})"), out),
        E::Coalesce { args } => call("sf.coalesce", args, out),
        E::When { args } => call("sf.when", args.as_slice(), out),
        E::Object { names, args } => {
            out.push_str("sf.object(");
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
