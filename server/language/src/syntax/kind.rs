//! The kinds of tokens and nodes of the syntax tree.

use logos::Logos;

/// What a token or a node is. Tokens come first; `logos` makes most of them.
#[derive(Logos, Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
#[allow(missing_docs)]
pub enum Kind {
    #[regex(r"[ \t\r]+")]
    Space = 0,
    #[token("\n")]
    Newline,
    #[regex(r"//[^\n]*", allow_greedy = true)]
    Comment,
    #[regex(r"///[^\n]*", priority = 20, allow_greedy = true)]
    Doc,

    #[regex(r"[a-z_][A-Za-z0-9_]*")]
    Lower,
    #[regex(r"[A-Z][A-Za-z0-9_]*")]
    Upper,
    #[regex(r"[0-9][0-9_]*")]
    Int,
    #[regex(r"[0-9][0-9_]*\.[0-9][0-9_]*([eE][+-]?[0-9]+)?")]
    Float,
    #[regex(r"\?[a-z_][A-Za-z0-9_]*")]
    HoleName,
    /// A tag glued to an opening quote: `url"`.
    #[regex(r#"[a-z_][A-Za-z0-9_]*""#, priority = 20)]
    TagQuote,
    #[token("\"")]
    Quote,
    StrText,
    Escape,
    InterpOpen,
    InterpClose,
    StrEnd,

    #[token("import")]
    ImportKw,
    #[token("type")]
    TypeKw,
    #[token("error")]
    ErrorKw,
    #[token("fn")]
    FnKw,
    #[token("test")]
    TestKw,
    #[token("property")]
    PropertyKw,
    #[token("let")]
    LetKw,
    #[token("if")]
    IfKw,
    #[token("else")]
    ElseKw,
    #[token("match")]
    MatchKw,
    #[token("recover")]
    RecoverKw,
    #[token("fail")]
    FailKw,
    #[token("assert")]
    AssertKw,
    #[token("where")]
    WhereKw,
    #[token("requires")]
    RequiresKw,
    #[token("ensures")]
    EnsuresKw,
    #[token("true")]
    TrueKw,
    #[token("false")]
    FalseKw,

    #[token("(")]
    LParen,
    #[token(")")]
    RParen,
    #[token("[")]
    LBracket,
    #[token("]")]
    RBracket,
    #[token("{")]
    LBrace,
    #[token("}")]
    RBrace,
    #[token(",")]
    Comma,
    #[token(":")]
    Colon,
    #[token(".")]
    Dot,
    #[token("..")]
    DotDot,
    #[token("->")]
    Arrow,
    #[token("=")]
    Eq,
    #[token("==")]
    EqEq,
    #[token("!=")]
    NotEq,
    #[token("<")]
    Lt,
    #[token("<=")]
    LtEq,
    #[token(">")]
    Gt,
    #[token(">=")]
    GtEq,
    #[token("+")]
    Plus,
    #[token("++")]
    PlusPlus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[token("&&")]
    AndAnd,
    #[token("||")]
    OrOr,
    #[token("|>")]
    PipeGt,
    #[token("|")]
    Bar,
    #[token("!")]
    Bang,
    #[token("@")]
    At,
    /// Anything the language has no token for.
    Unknown,
    /// The end of the text; never in a tree.
    Eof,

    // Nodes.
    Chunk,
    Import,
    ImportList,
    TypeDecl,
    ErrorDecl,
    Fn,
    Test,
    Property,
    Attr,
    Generics,
    Params,
    Param,
    Row,
    RowList,
    Requires,
    Ensures,
    Block,
    Let,
    ExprStmt,
    TyName,
    TyArgs,
    TyFn,
    TyParen,
    TyWhere,
    Fields,
    FieldDecl,
    Variants,
    Variant,
    Literal,
    Str,
    Interp,
    Path,
    Call,
    Args,
    FieldGet,
    Record,
    RecordFields,
    FieldInit,
    Spread,
    List,
    Paren,
    Unary,
    Binary,
    If,
    Match,
    Arms,
    Arm,
    Lambda,
    LambdaParams,
    LambdaParam,
    Fail,
    Recover,
    Assert,
    Hole,
    PatWild,
    PatName,
    PatLit,
    PatCtor,
    PatRecord,
    PatField,
    PatList,
    PatRest,
    PatParen,
    Error,
}

impl Kind {
    /// Whether the token means nothing to the grammar.
    pub fn is_trivia(self) -> bool {
        matches!(
            self,
            Kind::Space | Kind::Newline | Kind::Comment | Kind::Doc
        )
    }

    /// Whether a token of this kind begins a declaration.
    pub fn begins_item(self) -> bool {
        matches!(
            self,
            Kind::ImportKw
                | Kind::TypeKw
                | Kind::ErrorKw
                | Kind::FnKw
                | Kind::TestKw
                | Kind::PropertyKw
                | Kind::At
        )
    }

    /// How a message names the token.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Lower => "a name",
            Kind::Upper => "a type name",
            Kind::Int | Kind::Float => "a number",
            Kind::HoleName => "a hole",
            Kind::Quote | Kind::TagQuote | Kind::StrText | Kind::Escape | Kind::StrEnd => {
                "a string"
            }
            Kind::InterpOpen => "`{`",
            Kind::InterpClose => "`}`",
            Kind::ImportKw => "`import`",
            Kind::TypeKw => "`type`",
            Kind::ErrorKw => "`error`",
            Kind::FnKw => "`fn`",
            Kind::TestKw => "`test`",
            Kind::PropertyKw => "`property`",
            Kind::LetKw => "`let`",
            Kind::IfKw => "`if`",
            Kind::ElseKw => "`else`",
            Kind::MatchKw => "`match`",
            Kind::RecoverKw => "`recover`",
            Kind::FailKw => "`fail`",
            Kind::AssertKw => "`assert`",
            Kind::WhereKw => "`where`",
            Kind::RequiresKw => "`requires`",
            Kind::EnsuresKw => "`ensures`",
            Kind::TrueKw => "`true`",
            Kind::FalseKw => "`false`",
            Kind::LParen => "`(`",
            Kind::RParen => "`)`",
            Kind::LBracket => "`[`",
            Kind::RBracket => "`]`",
            Kind::LBrace => "`{`",
            Kind::RBrace => "`}`",
            Kind::Comma => "`,`",
            Kind::Colon => "`:`",
            Kind::Dot => "`.`",
            Kind::DotDot => "`..`",
            Kind::Arrow => "`->`",
            Kind::Eq => "`=`",
            Kind::EqEq => "`==`",
            Kind::NotEq => "`!=`",
            Kind::Lt => "`<`",
            Kind::LtEq => "`<=`",
            Kind::Gt => "`>`",
            Kind::GtEq => "`>=`",
            Kind::Plus => "`+`",
            Kind::PlusPlus => "`++`",
            Kind::Minus => "`-`",
            Kind::Star => "`*`",
            Kind::Slash => "`/`",
            Kind::Percent => "`%`",
            Kind::AndAnd => "`&&`",
            Kind::OrOr => "`||`",
            Kind::PipeGt => "`|>`",
            Kind::Bar => "`|`",
            Kind::Bang => "`!`",
            Kind::At => "`@`",
            Kind::Eof => "the end",
            _ => "this",
        }
    }
}

const ALL: [Kind; Kind::Error as usize + 1] = {
    // The tree stores kinds as numbers; this table turns them back without `unsafe`.
    use Kind::*;
    [
        Space,
        Newline,
        Comment,
        Doc,
        Lower,
        Upper,
        Int,
        Float,
        HoleName,
        TagQuote,
        Quote,
        StrText,
        Escape,
        InterpOpen,
        InterpClose,
        StrEnd,
        ImportKw,
        TypeKw,
        ErrorKw,
        FnKw,
        TestKw,
        PropertyKw,
        LetKw,
        IfKw,
        ElseKw,
        MatchKw,
        RecoverKw,
        FailKw,
        AssertKw,
        WhereKw,
        RequiresKw,
        EnsuresKw,
        TrueKw,
        FalseKw,
        LParen,
        RParen,
        LBracket,
        RBracket,
        LBrace,
        RBrace,
        Comma,
        Colon,
        Dot,
        DotDot,
        Arrow,
        Eq,
        EqEq,
        NotEq,
        Lt,
        LtEq,
        Gt,
        GtEq,
        Plus,
        PlusPlus,
        Minus,
        Star,
        Slash,
        Percent,
        AndAnd,
        OrOr,
        PipeGt,
        Bar,
        Bang,
        At,
        Unknown,
        Eof,
        Chunk,
        Import,
        ImportList,
        TypeDecl,
        ErrorDecl,
        Fn,
        Test,
        Property,
        Attr,
        Generics,
        Params,
        Param,
        Row,
        RowList,
        Requires,
        Ensures,
        Block,
        Let,
        ExprStmt,
        TyName,
        TyArgs,
        TyFn,
        TyParen,
        TyWhere,
        Fields,
        FieldDecl,
        Variants,
        Variant,
        Literal,
        Str,
        Interp,
        Path,
        Call,
        Args,
        FieldGet,
        Record,
        RecordFields,
        FieldInit,
        Spread,
        List,
        Paren,
        Unary,
        Binary,
        If,
        Match,
        Arms,
        Arm,
        Lambda,
        LambdaParams,
        LambdaParam,
        Fail,
        Recover,
        Assert,
        Hole,
        PatWild,
        PatName,
        PatLit,
        PatCtor,
        PatRecord,
        PatField,
        PatList,
        PatRest,
        PatParen,
        Error,
    ]
};

/// The language, as `rowan` wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sakura {}

impl rowan::Language for Sakura {
    type Kind = Kind;

    fn kind_from_raw(raw: rowan::SyntaxKind) -> Kind {
        ALL.get(raw.0 as usize).copied().unwrap_or(Kind::Error)
    }

    fn kind_to_raw(kind: Kind) -> rowan::SyntaxKind {
        rowan::SyntaxKind(kind as u16)
    }
}

/// A node of the tree.
pub type SyntaxNode = rowan::SyntaxNode<Sakura>;
/// A token of the tree.
pub type SyntaxToken = rowan::SyntaxToken<Sakura>;
/// A node or a token.
pub type SyntaxElement = rowan::SyntaxElement<Sakura>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_the_trip_through_its_number() {
        for (number, kind) in ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number, "{kind:?}");
        }
    }
}
