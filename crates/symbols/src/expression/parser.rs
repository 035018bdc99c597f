//! Tokens to a tree.
//!
//! Operators are read by their binding powers (Pratt). What stands in parentheses may be a type or a value; without the
//! program's types it is taken for a type if it can be nothing else, or if a value follows it. So `(T)x` and `(T *)-x`
//! are casts and `(a) - b` is a difference.

mod types;

use super::lexer::{Token, tokens};
use super::syntax::{Binary, Declarator, Name, Node, TypeName, Unary};
use super::{HEIGHT_LIMIT, Problem, Span};

/// How tightly `as` binds.
const AS_POWER: u8 = 24;

/// Words that base types are made of.
pub(super) const BASE_WORDS: &[&str] = &[
    "void",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "bool",
    "_Bool",
    "__int128",
    "_Complex",
    "__float128",
    "_Float128",
    "char8_t",
    "char16_t",
    "char32_t",
    "wchar_t",
];

const TAGS: &[&str] = &["struct", "union", "enum", "class"];

/// Words that stand before or behind a type.
const QUALIFIERS: &[&str] = &["const", "volatile"];

/// Words that name nothing.
const RESERVED: &[&str] = &["as", "sizeof"];

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Node, Problem> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let (node, _) = parser.expression(0)?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: usize,
}

/// A part and how high its tree is.
type Built = (Node, usize);

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.peek_behind(0)
    }

    fn peek_behind(&self, distance: usize) -> &Token {
        self.tokens.get(self.at + distance).map_or(&Token::End, |(token, _)| token)
    }

    fn span(&self) -> Span {
        let last = self.text.len()..self.text.len();
        self.tokens.get(self.at).map_or(last, |(_, span)| span.clone())
    }

    fn position(&self) -> usize {
        self.span().start
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len());
    }

    fn accept(&mut self, mark: &str) -> bool {
        let is_there = matches!(self.peek(), Token::Mark(found) if *found == mark);
        if is_there {
            self.advance();
        }
        is_there
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found == word)
    }

    fn expect(&mut self, mark: &'static str) -> Result<(), Problem> {
        if self.accept(mark) {
            return Ok(());
        }
        let found = self.found();
        Err(Problem::new(self.position(), format!("`{mark}` is expected here, not {found}")))
    }

    fn found(&self) -> String {
        match self.peek() {
            Token::End => "the end".to_string(),
            _ => format!("`{}`", &self.text[self.span()]),
        }
    }

    /// Says what is wrong with what follows a whole expression.
    fn unexpected(&self) -> Problem {
        let message = match self.peek() {
            Token::Mark(
                "=" | "+=" | "-=" | "*=" | "/=" | "%=" | "&=" | "|=" | "^=" | "<<=" | ">>=",
            ) => "a recording cannot be changed: there are no assignments; to compare, write `==`"
                .to_string(),
            Token::Mark("++" | "--") => {
                "a recording cannot be changed: there is no `++` and no `--`".to_string()
            }
            Token::Mark("(") => {
                "functions cannot be called: their results are in the recording".to_string()
            }
            Token::Mark(",") => "one expression at a time: there is no `,`".to_string(),
            _ => format!("an operator is expected here, not {}", self.found()),
        };
        Problem::new(self.position(), message)
    }

    fn built(&self, node: Node, height: usize) -> Result<Built, Problem> {
        match height > HEIGHT_LIMIT {
            true => Err(Problem::new(
                self.position(),
                "this expression has too many operators within each other",
            )),
            false => Ok((node, height)),
        }
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        if self.depth >= HEIGHT_LIMIT {
            return Err(Problem::new(self.position(), "this expression is nested too deeply"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn expression(&mut self, least: u8) -> Result<Built, Problem> {
        self.deeper(|this| {
            let mut left = this.unary()?;
            loop {
                if this.is_word("as") && AS_POWER >= least {
                    this.advance();
                    let ty = match this.rust_reference()? {
                        Some(reference) => reference,
                        None => this.type_name()?,
                    };
                    let height = left.1 + 1;
                    left = this.built(Node::Cast(ty, Box::new(left.0)), height)?;
                    continue;
                }
                let Token::Mark(mark) = *this.peek() else { break };
                if mark == "?" {
                    if least > 1 {
                        break;
                    }
                    left = this.choice(left)?;
                    continue;
                }
                let Some((operator, power)) = Binary::of(mark).filter(|(_, power)| *power >= least)
                else {
                    break;
                };
                this.advance();
                let right = this.expression(power + 1)?;
                let height = left.1.max(right.1) + 1;
                left = this
                    .built(Node::Binary(operator, Box::new(left.0), Box::new(right.0)), height)?;
            }
            Ok(left)
        })
    }

    fn choice(&mut self, condition: Built) -> Result<Built, Problem> {
        self.expect("?")?;
        let yes = self.expression(0)?;
        self.expect(":")?;
        let no = self.expression(1)?;
        let height = condition.1.max(yes.1).max(no.1) + 1;
        self.built(Node::Choice(Box::new(condition.0), Box::new(yes.0), Box::new(no.0)), height)
    }

    fn unary(&mut self) -> Result<Built, Problem> {
        self.deeper(|this| {
            // `&&x` behind an operator means nothing, and the lexer cannot know.
            let operator = match *this.peek() {
                Token::Mark(mark) => Unary::of(mark),
                _ => None,
            };
            if let Some(operator) = operator {
                this.advance();
                let (operand, height) = this.unary()?;
                return this.built(Node::Unary(operator, Box::new(operand)), height + 1);
            }
            if this.is_word("sizeof") {
                this.advance();
                return this.size_of();
            }
            if this.accept("{") {
                let ty = this.type_name()?;
                this.expect("}")?;
                let (operand, height) = this.unary()?;
                return this.built(Node::At(ty, Box::new(operand)), height + 1);
            }
            if let Some(ty) = this.cast_type() {
                let (operand, height) = this.unary()?;
                return this.built(Node::Cast(ty, Box::new(operand)), height + 1);
            }
            let primary = this.primary()?;
            this.postfix(primary)
        })
    }

    fn size_of(&mut self) -> Result<Built, Problem> {
        let start = self.at;
        if let Some((ty, true)) = self.parenthesized_type() {
            return self.built(Node::SizeOfType(ty), 1);
        }
        self.at = start;
        let (operand, height) = self.unary()?;
        self.built(Node::SizeOf(Box::new(operand)), height + 1)
    }

    /// A type in parentheses, if what follows makes it a cast.
    fn cast_type(&mut self) -> Option<TypeName> {
        let start = self.at;
        if let Some((ty, is_certain)) = self.parenthesized_type() {
            let operand_follows = match self.peek() {
                Token::Word(word) => word != "as",
                Token::Mark(mark) => matches!(*mark, "(" | "~" | "!" | "{" | "::"),
                Token::End => false,
                _ => true,
            };
            if is_certain || operand_follows {
                return Some(ty);
            }
        }
        self.at = start;
        None
    }

    /// A type in parentheses, and whether it can be nothing else.
    fn parenthesized_type(&mut self) -> Option<(TypeName, bool)> {
        let start = self.at;
        let found =
            self.accept("(").then(|| self.type_name().ok()).flatten().filter(|_| self.accept(")"));
        let Some(ty) = found else {
            self.at = start;
            return None;
        };
        let points = |d: &Declarator| matches!(d, Declarator::Pointer | Declarator::Reference);
        let is_certain = ty.tag.is_some()
            || ty.is_const
            || ty.is_volatile
            || ty.name.split(' ').any(|word| BASE_WORDS.contains(&word))
            // By custom this ends the names of types.
            || ty.name.ends_with("_t")
            || ty.name.ends_with('>')
            || ty.declarators.iter().any(points);
        if !is_certain && !ty.declarators.is_empty() {
            // `(a[3])` is an element.
            self.at = start;
            return None;
        }
        Some((ty, is_certain))
    }

    fn primary(&mut self) -> Result<Built, Problem> {
        let start = self.position();
        let token = self.peek().clone();
        let node = match token {
            Token::Integer { value, suffix, is_decimal } => {
                Node::Integer { value, suffix, is_decimal }
            }
            Token::Float { value, suffix } => Node::Float { value, suffix },
            Token::Character { code, prefix } => Node::Character { code, prefix },
            Token::Text(bytes) => Node::Text(bytes),
            Token::Register(name) => Node::Register(name),
            Token::Word(word) if word == "true" || word == "false" => Node::Truth(word == "true"),
            Token::Word(_) | Token::Quoted(_) | Token::Mark("::") => return self.name(),
            Token::Mark("(") => {
                self.advance();
                let inner = self.expression(0)?;
                match self.peek() {
                    Token::Mark(")") => self.advance(),
                    Token::End => {
                        return Err(Problem::new(start, "this parenthesis is not closed"));
                    }
                    _ => return Err(self.unexpected()),
                }
                return Ok(inner);
            }
            Token::Mark("++" | "--") => return Err(self.unexpected()),
            Token::End => return Err(Problem::new(start, "a value is missing here")),
            _ => {
                let found = self.found();
                return Err(Problem::new(start, format!("a value is expected here, not {found}")));
            }
        };
        self.advance();
        self.built(node, 1)
    }

    fn name(&mut self) -> Result<Built, Problem> {
        let mut within = None;
        if let Token::Quoted(file) = self.peek() {
            within = Some(file.clone());
            self.advance();
            self.expect("::")?;
        }
        if let Some(word) = self.type_word() {
            return Err(Problem::new(
                self.position(),
                format!("`{word}` belongs to a type: casts are written `(type) value`"),
            ));
        }
        let path = self.path(false)?;
        self.built(Node::Name(Name { within, path }), 1)
    }

    /// A word that can only be a part of a type. C has variables that are called `class`, and Rust such as are called
    /// `union`; a type has a name behind these words.
    fn type_word(&self) -> Option<&str> {
        let Token::Word(word) = self.peek() else { return None };
        let names_follow = matches!(self.peek_behind(1), Token::Word(_) | Token::Mark("::"));
        let is_of_type = match word.as_str() {
            "class" | "union" => names_follow,
            word => TAGS.contains(&word) || QUALIFIERS.contains(&word),
        };
        is_of_type.then_some(word)
    }

    /// `a::b<c>::d`
    fn path(&mut self, is_type: bool) -> Result<String, Problem> {
        let mut path = String::new();
        if self.accept("::") {
            path.push_str("::");
        }
        loop {
            let word = match self.peek() {
                Token::Word(word) if !RESERVED.contains(&word.as_str()) => word,
                _ => {
                    let found = self.found();
                    let message = format!("a name is expected here, not {found}");
                    return Err(Problem::new(self.position(), message));
                }
            };
            path.push_str(word);
            let end = self.span().end;
            self.advance();
            if let Some(arguments) = self.template_arguments(end, is_type) {
                path.push_str(&arguments);
            }
            if !self.accept("::") {
                return Ok(path);
            }
            path.push_str("::");
        }
    }

    /// Template arguments right behind a name. A value has them only before `::`, where nothing else can be meant.
    fn template_arguments(&mut self, end: usize, is_type: bool) -> Option<String> {
        if !matches!(self.peek(), Token::Mark("<")) || self.position() != end {
            return None;
        }
        let mut open = 0i32;
        for (index, (token, span)) in self.tokens.iter().enumerate().skip(self.at) {
            match token {
                Token::Mark("<") => open += 1,
                Token::Mark(">") => open -= 1,
                Token::Mark(">>") => open -= 2,
                Token::End | Token::Mark("?" | "&&" | "||" | "@" | "==" | "!=") => return None,
                _ => {}
            }
            if open < 0 {
                return None;
            }
            if open == 0 {
                let next = self.tokens.get(index + 1).map(|(token, _)| token);
                if !is_type && !matches!(next, Some(Token::Mark("::"))) {
                    return None;
                }
                let arguments = self.text[end..span.end].to_string();
                self.at = index + 1;
                return Some(arguments);
            }
        }
        None
    }

    fn postfix(&mut self, mut left: Built) -> Result<Built, Problem> {
        loop {
            let height = left.1 + 1;
            let node = match *self.peek() {
                Token::Mark("[") => {
                    self.advance();
                    let (index, index_height) = self.expression(0)?;
                    self.expect("]")?;
                    let node = Node::Index(Box::new(left.0), Box::new(index));
                    left = self.built(node, height.max(index_height + 1))?;
                    continue;
                }
                Token::Mark(mark @ ("." | "->")) => {
                    self.advance();
                    let name = match self.peek().clone() {
                        Token::Integer { value, .. } => {
                            self.advance();
                            value.to_string()
                        }
                        Token::Word(_) => self.path(false)?,
                        _ => {
                            let message =
                                format!("the name of a member is expected behind `{mark}`");
                            return Err(Problem::new(self.position(), message));
                        }
                    };
                    Node::Member(Box::new(left.0), name, mark == "->")
                }
                Token::Mark("(" | "++" | "--") => return Err(self.unexpected()),
                _ => return Ok(left),
            };
            left = self.built(node, height)?;
        }
    }
}
