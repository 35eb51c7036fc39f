//! Programs made up for tests: mostly well typed, with every construct of the language, and now
//! and then a mistake.

use touchstone_language::host::Random;

pub const PRELUDE: &str = "import std/clock.{Clock}
import std/random.{Random}

error Empty
error TooBig { limit: Int, why: String }

type Point = { x: Int, y: Float }
type Shape = Dot | Circle(Float) | Group(List<Shape>, Point)
type Small = Int where value >= 0 && value <= 9
type Pair<A, B> = { first: A, second: B }

fn apply<A, B, e>(f: (A) -> B ! e, value: A) -> B ! e { f(value) }

fn small(n: Small) -> Int { n + 1 }

";

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum T {
    Int,
    Float,
    Bool,
    Str,
    Unit,
    Ints,
    Strs,
    Opt,
    Point,
    Shape,
    Fun,
    Pair,
}

const ALL: [T; 12] = [
    T::Int,
    T::Float,
    T::Bool,
    T::Str,
    T::Unit,
    T::Ints,
    T::Strs,
    T::Opt,
    T::Point,
    T::Shape,
    T::Fun,
    T::Pair,
];

impl T {
    pub fn text(self) -> &'static str {
        match self {
            T::Int => "Int",
            T::Float => "Float",
            T::Bool => "Bool",
            T::Str => "String",
            T::Unit => "Unit",
            T::Ints => "List<Int>",
            T::Strs => "List<String>",
            T::Opt => "Option<Int>",
            T::Point => "Point",
            T::Shape => "Shape",
            T::Fun => "(Int) -> Int",
            T::Pair => "Pair<Int, String>",
        }
    }
}

/// The labels a generated body uses: Print, Clock, Random, Empty, TooBig.
pub type Used = [bool; 5];
pub const LABELS: [&str; 5] = ["Print", "Clock", "Random", "Empty", "TooBig"];

pub fn row(used: Used) -> String {
    let effects: Vec<&str> = (0..3).filter(|i| used[*i]).map(|i| LABELS[i]).collect();
    let fails: Vec<&str> = (3..5).filter(|i| used[*i]).map(|i| LABELS[i]).collect();
    let mut parts: Vec<String> = effects.iter().map(|e| (*e).to_owned()).collect();
    if !fails.is_empty() {
        parts.push(format!("Fail<{}>", fails.join(" | ")));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!(" ! {{{}}}", parts.join(", "))
    }
}

#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub params: Vec<T>,
    pub ret: T,
    pub used: Used,
}

pub struct Maker {
    pub random: Random,
    scope: Vec<(String, T)>,
    pub functions: Vec<Function>,
    used: Used,
    names: u32,
    /// One mistake in so many expressions; 0: none.
    noise: u64,
}

impl Maker {
    pub fn new(seed: u64, noise: u64) -> Self {
        Self {
            random: Random::new(seed),
            scope: Vec::new(),
            functions: Vec::new(),
            used: [false; 5],
            names: 0,
            noise,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn pick<'a, X>(&mut self, list: &'a [X]) -> &'a X {
        &list[self.random.below(list.len() as u64) as usize]
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// A whole file of `count` functions.
    pub fn program(&mut self, count: u32) -> String {
        let mut out = PRELUDE.to_owned();
        for index in 0..count {
            out.push_str(&self.function(&format!("f{index}")));
            out.push('\n');
        }
        out
    }

    pub fn function(&mut self, name: &str) -> String {
        let params: Vec<T> = (0..self.below(4)).map(|_| *self.pick(&ALL)).collect();
        let ret = *self.pick(&ALL);
        self.scope = params
            .iter()
            .enumerate()
            .map(|(i, ty)| (format!("p{i}"), *ty))
            .collect();
        self.used = [false; 5];
        let body = self.block(ret, 4);
        let mut used = self.used;
        if self.noise > 0 && self.below(6) == 0 {
            // Forget a label, or declare one too many.
            let at = self.below(5) as usize;
            used[at] = !used[at];
        }
        let list: Vec<String> = params
            .iter()
            .enumerate()
            .map(|(i, ty)| format!("p{i}: {}", ty.text()))
            .collect();
        let contract = if self.below(5) == 0 && ret == T::Int {
            "\n  ensures result == result\n"
        } else {
            " "
        };
        let text = format!(
            "fn {name}({}) -> {}{}{contract}{body}\n",
            list.join(", "),
            ret.text(),
            row(used)
        );
        // A function result of function type takes the row for its own; leave those out.
        if ret == T::Fun {
            return format!("fn {name}() -> Int {{ {} }}\n", self.below(9));
        }
        self.functions.push(Function {
            name: name.to_owned(),
            params,
            ret,
            used,
        });
        text
    }

    fn block(&mut self, ty: T, depth: u32) -> String {
        let mark = self.scope.len();
        let mut out = String::from("{\n");
        for _ in 0..self.below(3) {
            if self.below(4) == 0 {
                let unit = self.expr(T::Unit, depth.saturating_sub(1));
                out.push_str(&format!("  {unit}\n"));
                continue;
            }
            let of = *self.pick(&ALL);
            let value = self.expr(of, depth.saturating_sub(1));
            let name = self.fresh();
            let annotation = if self.below(3) == 0 {
                format!(": {}", of.text())
            } else {
                String::new()
            };
            // The type of a bare lambda or empty list is found later; say it for functions.
            let annotation = if of == T::Fun {
                ": (Int) -> Int".to_owned()
            } else {
                annotation
            };
            out.push_str(&format!("  let {name}{annotation} = {value}\n"));
            self.scope.push((name, of));
        }
        let value = self.expr(ty, depth);
        self.scope.truncate(mark);
        out.push_str(&format!("  {value}\n}}"));
        out
    }

    pub fn expr(&mut self, ty: T, depth: u32) -> String {
        let ty = if self.noise > 0 && self.below(self.noise) == 0 {
            *self.pick(&ALL)
        } else {
            ty
        };
        let named: Vec<String> = self
            .scope
            .iter()
            .filter(|(_, t)| *t == ty)
            .map(|(n, _)| n.clone())
            .collect();
        if !named.is_empty() && self.below(3) == 0 {
            return self.pick(&named).clone();
        }
        if depth == 0 {
            return self.leaf(ty);
        }
        let d = depth - 1;
        match self.below(12) {
            0 => format!(
                "if {} {} else {}",
                self.condition(d),
                self.block(ty, d),
                self.block(ty, d)
            ),
            1 => self.match_option(ty, d),
            2 => self.match_shape(ty, d),
            3 => self.match_list(ty, d),
            4 => self.call(ty, d),
            5 => self.recover(ty, d),
            6 if self.below(3) == 0 => self.fail(),
            7 => format!(
                "apply({} -> {}, {})",
                self.bind("q", T::Int),
                self.in_scope("q", T::Int, ty, d),
                self.expr(T::Int, d)
            ),
            8 if self.below(2) == 0 => format!("({})", self.expr(ty, d)),
            _ => self.own(ty, d),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        format!("({})", self.expr(T::Bool, depth))
    }

    fn head(&mut self, ty: T, depth: u32) -> String {
        format!("({})", self.expr(ty, depth))
    }

    fn bind(&mut self, name: &str, _ty: T) -> String {
        name.to_owned()
    }

    /// An expression with one more name in scope.
    fn in_scope(&mut self, name: &str, of: T, ty: T, depth: u32) -> String {
        self.scope.push((name.to_owned(), of));
        let out = self.expr(ty, depth);
        self.scope.pop();
        out
    }

    fn match_option(&mut self, ty: T, d: u32) -> String {
        let name = self.fresh();
        let head = self.head(T::Opt, d);
        let some = self.in_scope(&name, T::Int, ty, d);
        let none = self.expr(ty, d);
        format!("match {head} {{\n    Some({name}) -> {some}\n    None -> {none}\n  }}")
    }

    fn match_shape(&mut self, ty: T, d: u32) -> String {
        let head = self.head(T::Shape, d);
        let (r, p) = (self.fresh(), self.fresh());
        let circle = self.in_scope(&r, T::Float, ty, d);
        let group = self.in_scope(&p, T::Int, ty, d);
        let rest = self.expr(ty, d);
        let guard = if self.below(3) == 0 {
            format!(" if {r} > 1.0")
        } else {
            String::new()
        };
        format!(
            "match {head} {{\n    Circle({r}){guard} -> {circle}\n    Group(_, Point {{ x: {p} }}) -> {group}\n    _ -> {rest}\n  }}"
        )
    }

    fn match_list(&mut self, ty: T, d: u32) -> String {
        let head = self.head(T::Ints, d);
        let (first, rest) = (self.fresh(), self.fresh());
        self.scope.push((first.clone(), T::Int));
        let some = self.in_scope(&rest, T::Ints, ty, d);
        self.scope.pop();
        let none = self.expr(ty, d);
        format!("match {head} {{\n    [] -> {none}\n    [{first}, ..{rest}] -> {some}\n  }}")
    }

    fn call(&mut self, ty: T, d: u32) -> String {
        let fit: Vec<Function> = self
            .functions
            .iter()
            .filter(|f| f.ret == ty)
            .cloned()
            .collect();
        if fit.is_empty() {
            return self.own(ty, d);
        }
        let function = self.pick(&fit).clone();
        for (mine, theirs) in self.used.iter_mut().zip(function.used) {
            *mine |= theirs;
        }
        let args: Vec<String> = function
            .params
            .iter()
            .map(|ty| self.expr(*ty, d.min(1)))
            .collect();
        format!("{}({})", function.name, args.join(", "))
    }

    fn recover(&mut self, ty: T, d: u32) -> String {
        let before = self.used;
        let inner = self.expr(ty, d);
        let inside = self.used;
        // What the body fails with is taken; effects stay.
        self.used[3] = before[3];
        self.used[4] = before[4];
        let name = self.fresh();
        let arm = self.in_scope(&name, T::Int, ty, d.saturating_sub(1));
        let rest = self.expr(ty, d.saturating_sub(1));
        if self.below(2) == 0 {
            return format!(
                "recover ({inner}) {{\n    TooBig {{ limit: {name} }} -> {arm}\n    _ -> {rest}\n  }}"
            );
        }
        // Only one of the two is taken.
        self.used[3] |= inside[3];
        format!("recover ({inner}) {{\n    TooBig {{ limit: {name} }} -> {arm}\n  }}")
    }

    fn fail(&mut self) -> String {
        if self.below(2) == 0 {
            self.used[3] = true;
            return "fail Empty".to_owned();
        }
        self.used[4] = true;
        let limit = self.expr(T::Int, 0);
        format!("fail TooBig {{ why: \"w\", limit: {limit} }}")
    }

    fn leaf(&mut self, ty: T) -> String {
        match ty {
            T::Int => format!("{}", self.below(10)),
            T::Float => format!("{}.5", self.below(10)),
            T::Bool => if self.below(2) == 0 { "true" } else { "false" }.to_owned(),
            T::Str => format!("\"s{}\"", self.below(10)),
            T::Unit => "()".to_owned(),
            T::Ints => "[3, 1, 2]".to_owned(),
            T::Strs => "[\"a\", \"b\"]".to_owned(),
            T::Opt => if self.below(2) == 0 {
                "None"
            } else {
                "Some(4)"
            }
            .to_owned(),
            T::Point => "Point { x: 1, y: 2.0 }".to_owned(),
            T::Shape => "Dot".to_owned(),
            T::Fun => "(k -> k + 1)".to_owned(),
            T::Pair => "Pair { first: 1, second: \"b\" }".to_owned(),
        }
    }

    fn own(&mut self, ty: T, d: u32) -> String {
        let pick = self.below(6);
        match (ty, pick) {
            (T::Int, 0) => {
                let op = *self.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {op} {})", self.expr(T::Int, d), self.expr(T::Int, d))
            }
            (T::Int, 1) => format!("List.length({})", self.expr(T::Ints, d)),
            (T::Int, 2) => format!("{}.x", self.head(T::Point, d)),
            (T::Int, 3) => {
                self.used[1] = true;
                "Clock.now()".to_owned()
            }
            (T::Int, 4) => {
                self.used[2] = true;
                "Random.int(0, 5)".to_owned()
            }
            (T::Int, _) => {
                let f = self.head(T::Fun, d);
                format!("{f}({})", self.expr(T::Int, d))
            }
            (T::Float, 0) => format!("({} * {})", self.expr(T::Float, d), self.expr(T::Float, d)),
            (T::Float, 1) => format!("Int.to_float({})", self.expr(T::Int, d)),
            (T::Float, 2) => format!("-{}", self.head(T::Float, d)),
            (T::Bool, 0) => {
                let of = *self.pick(&[T::Int, T::Float, T::Str]);
                let op = *self.pick(&["<", "<=", ">", ">="]);
                format!("({} {op} {})", self.expr(of, d), self.expr(of, d))
            }
            (T::Bool, 1) => {
                let of = *self.pick(&ALL);
                format!("({} == {})", self.expr(of, d), self.expr(of, d))
            }
            (T::Bool, 2) => format!("({} && {})", self.expr(T::Bool, d), self.expr(T::Bool, d)),
            (T::Bool, 3) => format!("!{}", self.head(T::Bool, d)),
            (T::Str, 0) => format!("({} ++ {})", self.expr(T::Str, d), self.expr(T::Str, d)),
            (T::Str, 1) => {
                let name: Vec<String> = self
                    .scope
                    .iter()
                    .filter(|(_, t)| matches!(t, T::Int | T::Str | T::Bool | T::Float))
                    .map(|(n, _)| n.clone())
                    .collect();
                if name.is_empty() {
                    "\"x\"".to_owned()
                } else {
                    format!("\"<{{{}}}>\"", self.pick(&name))
                }
            }
            (T::Str, 2) => format!("debug({})", {
                let of = *self.pick(&ALL);
                self.expr(of, d)
            }),
            (T::Unit, 0 | 1) => {
                self.used[0] = true;
                format!("print({})", self.expr(T::Str, d))
            }
            (T::Unit, 2) => {
                let body = self.in_scope("i", T::Int, T::Unit, d);
                format!("List.each({}, i -> {body})", self.expr(T::Ints, d))
            }
            (T::Ints, 0) => {
                let body = self.in_scope("i", T::Int, T::Int, d);
                format!("List.map({}, i -> {body})", self.expr(T::Ints, d))
            }
            (T::Ints, 1) => {
                let body = self.in_scope("i", T::Int, T::Bool, d);
                format!("({} |> List.filter(i -> {body}))", self.head(T::Ints, d))
            }
            (T::Ints, 2) => format!("[{}, {}]", self.expr(T::Int, d), self.expr(T::Int, d)),
            (T::Ints, 3) => format!(
                "List.take({}, {})",
                self.expr(T::Ints, d),
                self.expr(T::Int, d)
            ),
            (T::Ints, 4) => format!("({} ++ {})", self.expr(T::Ints, d), self.expr(T::Ints, d)),
            (T::Strs, 0 | 1) => {
                let body = self.in_scope("i", T::Int, T::Str, d);
                format!("List.map({}, i -> {body})", self.expr(T::Ints, d))
            }
            (T::Strs, 2) => format!(
                "String.split({}, {})",
                self.expr(T::Str, d),
                self.expr(T::Str, 0)
            ),
            (T::Opt, 0) => format!("Some({})", self.expr(T::Int, d)),
            (T::Opt, 1) => format!(
                "List.get({}, {})",
                self.expr(T::Ints, d),
                self.expr(T::Int, d)
            ),
            (T::Opt, 2) => {
                let body = self.in_scope("i", T::Int, T::Int, d);
                format!("Option.map({}, i -> {body})", self.expr(T::Opt, d))
            }
            (T::Point, 0) => format!(
                "Point {{ y: {}, x: {} }}",
                self.expr(T::Float, d),
                self.expr(T::Int, d)
            ),
            (T::Point, 1) => format!(
                "Point {{ ..{}, x: {} }}",
                self.head(T::Point, d),
                self.expr(T::Int, d)
            ),
            (T::Shape, 0) => format!("Circle({})", self.expr(T::Float, d)),
            (T::Shape, 1) => format!(
                "Group([{}], {})",
                self.expr(T::Shape, d),
                self.expr(T::Point, d)
            ),
            (T::Fun, 0) => {
                let before = self.used;
                let body = self.in_scope("k", T::Int, T::Int, d.min(1));
                // Functions of this type do nothing; bodies that do are not wanted here.
                if self.used != before && self.noise == 0 {
                    self.used = before;
                    return "(k -> k * 2)".to_owned();
                }
                format!("(k -> {body})")
            }
            (T::Pair, 0) => format!(
                "Pair {{ first: {}, second: {} }}",
                self.expr(T::Int, d),
                self.expr(T::Str, d)
            ),
            _ => self.leaf(ty),
        }
    }
}
