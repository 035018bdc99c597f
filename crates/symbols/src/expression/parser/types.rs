//! Types as they are written: a name, and what stands around the place where a declaration has the name of a variable.

use super::super::Problem;
use super::super::lexer::Token;
use super::super::syntax::{Declarator, TypeName};
use super::{BASE_WORDS, Parser, TAGS};

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> Result<TypeName, Problem> {
        self.deeper(|this| {
            let mut ty = TypeName {
                tag: None,
                name: String::new(),
                is_const: false,
                is_volatile: false,
                declarators: Vec::new(),
            };
            if let Some(rust) = this.rust_pointer()? {
                return Ok(rust);
            }
            let mut words: Vec<String> = Vec::new();
            while let Token::Word(word) = this.peek().clone() {
                match word.as_str() {
                    "const" => ty.is_const = true,
                    "volatile" => ty.is_volatile = true,
                    tag if TAGS.contains(&tag) && words.is_empty() && ty.tag.is_none() => {
                        ty.tag = Some(word)
                    }
                    base if BASE_WORDS.contains(&base) && ty.tag.is_none() => words.push(word),
                    _ if words.is_empty() => {
                        ty.name = this.path(true)?;
                        break;
                    }
                    _ => break,
                }
                this.advance();
            }
            // The qualifier may stand behind the name, too.
            while this.is_word("const") || this.is_word("volatile") {
                ty.is_const |= this.is_word("const");
                ty.is_volatile |= this.is_word("volatile");
                this.advance();
            }
            if ty.name.is_empty() {
                if matches!(this.peek(), Token::Mark("::")) && words.is_empty() {
                    ty.name = this.path(true)?;
                } else {
                    ty.name = words.join(" ");
                }
            }
            if ty.name.is_empty() {
                let found = this.found();
                return Err(Problem::new(
                    this.position(),
                    format!("a type is expected here, not {found}"),
                ));
            }
            ty.declarators = this.declarators()?;
            Ok(ty)
        })
    }

    /// `*const T` and `*mut T`.
    fn rust_pointer(&mut self) -> Result<Option<TypeName>, Problem> {
        let is_raw = matches!(self.peek(), Token::Mark("*"))
            && matches!(self.peek_behind(1), Token::Word(word) if word == "const" || word == "mut");
        if !is_raw {
            return Ok(None);
        }
        self.advance();
        self.advance();
        let mut ty = self.type_name()?;
        ty.declarators.push(Declarator::Pointer);
        Ok(Some(ty))
    }

    /// `&T` and `&mut T`. Only behind `as`: in parentheses it would be an address.
    pub(super) fn rust_reference(&mut self) -> Result<Option<TypeName>, Problem> {
        if !self.accept("&") {
            return Ok(None);
        }
        if self.is_word("mut") {
            self.advance();
        }
        let mut ty = self.type_name()?;
        ty.declarators.push(Declarator::Pointer);
        Ok(Some(ty))
    }

    /// What stands around the place of a name, from the inside out.
    fn declarators(&mut self) -> Result<Vec<Declarator>, Problem> {
        self.deeper(|this| {
            let mut list = Vec::new();
            loop {
                if this.accept("*") {
                    list.push(Declarator::Pointer);
                } else if this.accept("&") || this.accept("&&") {
                    // References to references are references.
                    if list.last() != Some(&Declarator::Reference) {
                        list.push(Declarator::Reference);
                    }
                } else if this.is_word("const") {
                    this.advance();
                    list.push(Declarator::Const);
                } else if this.is_word("volatile") {
                    this.advance();
                    list.push(Declarator::Volatile);
                } else {
                    break;
                }
            }
            let mut outer = Vec::new();
            if matches!(this.peek(), Token::Mark("("))
                && matches!(this.peek_behind(1), Token::Mark("*" | "&" | "&&"))
            {
                this.advance();
                outer = this.declarators()?;
                this.expect(")")?;
            }
            let mut suffixes = Vec::new();
            loop {
                if this.accept("[") {
                    let Token::Integer { value, .. } = *this.peek() else {
                        return Err(Problem::new(
                            this.position(),
                            "the number of elements is expected here",
                        ));
                    };
                    this.advance();
                    this.expect("]")?;
                    suffixes.push(Declarator::Array(u64::try_from(value).unwrap_or(u64::MAX)));
                } else if matches!(this.peek(), Token::Mark("(")) && !outer.is_empty() {
                    this.parameters()?;
                    suffixes.push(Declarator::Function);
                } else {
                    break;
                }
            }
            list.extend(suffixes.into_iter().rev());
            list.extend(outer);
            Ok(list)
        })
    }

    /// The parameters of a function's type. They make no difference to its address.
    fn parameters(&mut self) -> Result<(), Problem> {
        self.expect("(")?;
        if self.accept(")") {
            return Ok(());
        }
        loop {
            if !self.accept("...") {
                self.type_name()?;
            }
            if self.accept(")") {
                return Ok(());
            }
            self.expect(",")?;
        }
    }
}
