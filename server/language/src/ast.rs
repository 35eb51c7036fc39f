//! The program as the checker and the compiler see it. Spans count bytes from the start of the
//! chunk (see [`crate::syntax`]), so that an edit elsewhere leaves them right.

use std::sync::Arc;

/// Bytes `start..end` of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end`.
    pub fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// The span from the start of this one to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span::new(self.start, other.end.max(self.start))
    }
}

/// A name where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Name {
    pub text: Arc<str>,
    pub span: Span,
}

/// A declaration.
#[derive(Debug, Clone)]
// There are few of them, and functions, the largest, are the most.
#[allow(missing_docs, clippy::large_enum_variant)]
pub enum Item {
    Import(Import),
    Type(TypeDecl),
    Error(ErrorDecl),
    Fn(FnDecl),
    Test(TestDecl),
}

/// `import a/b.{C, d}`
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Import {
    pub module: Name,
    pub names: Vec<Name>,
    pub span: Span,
}

/// `type Name<A> = …`
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct TypeDecl {
    pub doc: String,
    pub name: Name,
    pub generics: Vec<Name>,
    pub body: TypeBody,
    pub span: Span,
}

/// What a type is.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum TypeBody {
    Record(Vec<Field>),
    Union(Vec<Variant>),
    Alias(TypeExpr),
    /// No body: a type of the machine (standard library only).
    Builtin,
}

/// A field of a record or of an error.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Field {
    pub name: Name,
    pub ty: TypeExpr,
}

/// One alternative of a tagged union.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Variant {
    pub name: Name,
    pub payload: Vec<TypeExpr>,
}

/// `error Name { … }`
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct ErrorDecl {
    pub doc: String,
    pub name: Name,
    pub fields: Vec<Field>,
    pub span: Span,
}

/// A function.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct FnDecl {
    pub doc: String,
    /// The text of `@tool("…")`.
    pub tool: Option<Name>,
    pub name: Name,
    pub generics: Vec<Name>,
    pub params: Vec<Param>,
    pub ret: TypeExpr,
    pub row: Option<RowExpr>,
    pub requires: Vec<Expr>,
    pub ensures: Vec<Expr>,
    /// None: a function of the machine (standard library only).
    pub body: Option<Expr>,
    pub span: Span,
    /// From the name to the end of the contracts: what callers see.
    pub head: Span,
}

/// A parameter with its type.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Param {
    pub name: Name,
    pub ty: TypeExpr,
}

/// A test (no parameters) or a property.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct TestDecl {
    pub property: bool,
    pub name: Name,
    pub params: Vec<Param>,
    pub body: Expr,
    pub span: Span,
}

/// What stands after `!`.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct RowExpr {
    pub labels: Vec<RowLabel>,
    pub span: Span,
}

/// One entry of a row.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum RowLabel {
    Effect(Name),
    Fail(Vec<Name>),
    /// An effect parameter.
    Var(Name),
}

/// A type where it stands.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct TypeExpr {
    pub span: Span,
    pub kind: TypeKind,
}

/// The forms of types.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum TypeKind {
    Name(Name, Vec<TypeExpr>),
    Fn(Vec<TypeExpr>, Box<TypeExpr>, Option<RowExpr>),
    /// The base, the condition on `value`, and the condition's text.
    Where(Box<TypeExpr>, Box<Expr>, Arc<str>),
    /// Not a type; said already.
    Error,
}

/// An expression. `height` bounds the recursion of everyone who walks it.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Expr {
    pub span: Span,
    pub height: u16,
    pub kind: ExprKind,
}

/// A piece of a string.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Part {
    Text(String),
    Expr(Expr),
}

/// Operators of two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinOp {
    Or,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Concat,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

impl BinOp {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            BinOp::Or => "||",
            BinOp::And => "&&",
            BinOp::Eq => "==",
            BinOp::Ne => "!=",
            BinOp::Lt => "<",
            BinOp::Le => "<=",
            BinOp::Gt => ">",
            BinOp::Ge => ">=",
            BinOp::Concat => "++",
            BinOp::Add => "+",
            BinOp::Sub => "-",
            BinOp::Mul => "*",
            BinOp::Div => "/",
            BinOp::Rem => "%",
        }
    }
}

/// A record's fields where one is made.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct FieldInit {
    pub name: Name,
    pub value: Expr,
}

/// The forms of expressions.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum ExprKind {
    Int(i64),
    Float(f64),
    Bool(bool),
    Unit,
    Str(Vec<Part>),
    Tagged(Name, Vec<Part>),
    /// A variable or a function: `x`, `List.map`.
    Name(Name),
    /// A constructor: `Circle`, `None`.
    Ctor(Name),
    Call(Box<Expr>, Vec<Expr>),
    Field(Box<Expr>, Name),
    Record {
        name: Name,
        spread: Option<Box<Expr>>,
        fields: Vec<FieldInit>,
    },
    List(Vec<Expr>),
    Not(Box<Expr>),
    Neg(Box<Expr>),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    Match(Box<Expr>, Vec<Arm>),
    Block(Vec<Stmt>),
    Lambda(Vec<LambdaParam>, Box<Expr>),
    Fail(Name, Vec<FieldInit>),
    Recover(Box<Expr>, Vec<Arm>),
    Assert(Box<Expr>),
    Hole(Name),
    /// Not an expression; said already.
    Error,
}

/// A parameter of a lambda.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct LambdaParam {
    pub name: Name,
    pub ty: Option<TypeExpr>,
}

/// A statement of a block.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum Stmt {
    Let {
        pattern: Pattern,
        ty: Option<TypeExpr>,
        value: Expr,
        span: Span,
    },
    Expr(Expr),
}

/// One arm of `match` or `recover`.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Arm {
    pub pattern: Pattern,
    pub guard: Option<Expr>,
    pub body: Expr,
}

/// A pattern.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct Pattern {
    pub span: Span,
    pub kind: PatternKind,
}

/// The forms of patterns.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub enum PatternKind {
    Wild,
    Bind(Name),
    Int(i64),
    Float(f64),
    Bool(bool),
    Unit,
    Str(String),
    Ctor(Name, Vec<Pattern>),
    /// Fields by name; a field without pattern binds its own name.
    Record(Name, Vec<(Name, Option<Pattern>)>),
    /// Elements, and whether `..` (with a name, if any) takes the rest.
    List(Vec<Pattern>, Option<Option<Name>>),
    /// Not a pattern; said already.
    Error,
}
