//! What can be said of a value without running: literals, and conditions on them.

use crate::ast::*;
use crate::names::Scope;

/// A value known from the text alone.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub(crate) enum Const {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
    List(Vec<Const>),
}

/// The value of `expr` when `names` hold the values given, if the text alone tells.
pub(crate) fn value(expr: &Expr, names: &[(&str, Const)], scope: &Scope) -> Option<Const> {
    let eval = |e: &Expr| value(e, names, scope);
    Some(match &expr.kind {
        ExprKind::Int(n) => Const::Int(*n),
        ExprKind::Float(x) => Const::Float(*x),
        ExprKind::Bool(b) => Const::Bool(*b),
        ExprKind::Str(parts) => match parts.as_slice() {
            [] => Const::Str(String::new()),
            [Part::Text(text)] => Const::Str(text.clone()),
            _ => return None,
        },
        ExprKind::List(items) => Const::List(items.iter().map(eval).collect::<Option<_>>()?),
        ExprKind::Name(name) => names
            .iter()
            .rev()
            .find(|(n, _)| *n == &*name.text)?
            .1
            .clone(),
        ExprKind::Not(inner) => match eval(inner)? {
            Const::Bool(b) => Const::Bool(!b),
            _ => return None,
        },
        ExprKind::Neg(inner) => match eval(inner)? {
            Const::Int(n) => Const::Int(n.checked_neg()?),
            Const::Float(x) => Const::Float(-x),
            _ => return None,
        },
        ExprKind::Binary(op, left, right) => binary(*op, left, right, &eval)?,
        ExprKind::Call(callee, args) => {
            let ExprKind::Name(name) = &callee.kind else {
                return None;
            };
            let sym = scope.function(&name.text)?;
            let [arg] = args.as_slice() else { return None };
            match (&*sym, eval(arg)?) {
                ("std/core::String.length", Const::Str(s)) => Const::Int(s.chars().count() as i64),
                ("std/core::String.is_empty", Const::Str(s)) => Const::Bool(s.is_empty()),
                ("std/core::List.length", Const::List(l)) => Const::Int(l.len() as i64),
                ("std/core::List.is_empty", Const::List(l)) => Const::Bool(l.is_empty()),
                _ => return None,
            }
        }
        _ => return None,
    })
}

fn binary(
    op: BinOp,
    left: &Expr,
    right: &Expr,
    eval: &impl Fn(&Expr) -> Option<Const>,
) -> Option<Const> {
    use std::cmp::Ordering::{Greater, Less};
    let left = eval(left);
    match (op, &left) {
        (BinOp::And, Some(Const::Bool(false))) => return Some(Const::Bool(false)),
        (BinOp::Or, Some(Const::Bool(true))) => return Some(Const::Bool(true)),
        _ => {}
    }
    let (left, right) = (left?, eval(right)?);
    let order = match (&left, &right) {
        (Const::Int(a), Const::Int(b)) => a.partial_cmp(b),
        (Const::Float(a), Const::Float(b)) => a.partial_cmp(b),
        (Const::Str(a), Const::Str(b)) => a.partial_cmp(b),
        _ => None,
    };
    Some(match op {
        BinOp::And | BinOp::Or => match right {
            Const::Bool(b) => Const::Bool(b),
            _ => return None,
        },
        BinOp::Eq => Const::Bool(left == right),
        BinOp::Ne => Const::Bool(left != right),
        BinOp::Lt => Const::Bool(order? == Less),
        BinOp::Le => Const::Bool(order? != Greater),
        BinOp::Gt => Const::Bool(order? == Greater),
        BinOp::Ge => Const::Bool(order? != Less),
        _ => match (left, right) {
            (Const::Int(a), Const::Int(b)) => Const::Int(match op {
                BinOp::Add => a.checked_add(b)?,
                BinOp::Sub => a.checked_sub(b)?,
                BinOp::Mul => a.checked_mul(b)?,
                BinOp::Div => a.checked_div(b)?,
                BinOp::Rem => a.checked_rem(b)?,
                _ => return None,
            }),
            _ => return None,
        },
    })
}
