//! Who may ask.
//!
//! A Unix socket is guarded by its file's permissions. A TCP port can be reached by every user of the machine, and by
//! every web page that one of them opens. Against the former there is a token. Against the latter, which need not know the
//! token to do harm if the user switched it off: the `Host` must be a name that no foreign page can have (DNS
//! rebinding gives a foreign name our address), and the `Origin`, which browsers send with everything dangerous,
//! must be our own page.

use std::fmt::{self, Write};
use std::io;
use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use subtle::ConstantTimeEq;

use crate::error::ServerError;

/// What a TCP client must know.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// A new one, of 128 random bits.
    pub fn random() -> Result<Token, ServerError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| ServerError::Start(io::Error::other(error)))?;
        let text = bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        Ok(Token(text))
    }

    /// One that the user chose: 16 to 256 letters, digits, `-` and `_`.
    pub fn from_text(text: &str) -> Result<Token, ServerError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if (16..=256).contains(&text.len()) && text.bytes().all(fits) {
            Ok(Token(text.to_owned()))
        } else {
            Err(ServerError::UnfitToken)
        }
    }

    /// To be told to the user.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Compares in a time that says nothing but whether the lengths differ.
    fn is(&self, presented: &str) -> bool {
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

/// The rules of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub token: Option<Token>,
    pub web: WebRule,
}

/// Which names of this server web pages may use.
#[derive(Clone, Debug)]
pub(crate) enum WebRule {
    /// No browser can get here.
    Any,
    /// Addresses, `localhost` and these names.
    Names(Vec<String>),
}

/// Why an HTTP request goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("the Host is not a name of this server: use localhost or its address")]
    Host,
    #[error("the Origin is not a page of this server")]
    Origin,
    #[error("the token is missing or wrong: use the one that the server printed when it started")]
    Token,
}

impl Access {
    /// Whether this is the token, or none is needed.
    pub fn accepts(&self, presented: Option<&str>) -> bool {
        match &self.token {
            None => true,
            Some(token) => presented.is_some_and(|presented| token.is(presented)),
        }
    }

    /// Whether the request was meant for this server and does not come from a foreign page.
    pub fn check_page(&self, headers: &HeaderMap) -> Result<(), Denied> {
        let WebRule::Names(names) = &self.web else { return Ok(()) };
        let host = only_value(headers, HOST.as_str()).ok_or(Denied::Host)?;
        if !is_own_name(host, names) {
            return Err(Denied::Host);
        }
        match headers.get_all(ORIGIN).iter().next() {
            None => Ok(()),
            Some(_) => match only_value(headers, ORIGIN.as_str()) {
                Some(origin) if is_page_of(origin, host) => Ok(()),
                _ => Err(Denied::Origin),
            },
        }
    }

    /// Whether the request has the right token, as a header or, where the query is given, in it.
    pub fn check_token(&self, headers: &HeaderMap, query: Option<&str>) -> Result<(), Denied> {
        let presented = bearer(headers).or_else(|| query.and_then(token_in_query));
        if self.accepts(presented) { Ok(()) } else { Err(Denied::Token) }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only_value(headers, AUTHORIZATION.as_str())?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Tokens have no character that would be escaped in a query.
fn token_in_query(query: &str) -> Option<&str> {
    query.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// The value of a header that is there exactly once.
fn only_value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// An address cannot be rebound. Ports do not matter: they change when forwarded.
fn is_own_name(host: &str, names: &[String]) -> bool {
    let name = without_port(host);
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// The other scheme is for a proxy that adds TLS.
fn is_page_of(origin: &str, host: &str) -> bool {
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access {
            token: Some(Token::from_text("0123456789abcdef").unwrap()),
            web: WebRule::Names(vec!["workstation".to_owned()]),
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn hosts_are_addresses_or_own_names() {
        for (host, good) in [
            ("localhost", true),
            ("LOCALHOST:80", true),
            ("127.0.0.1:7777", true),
            ("[::1]:7777", true),
            ("[::1]", true),
            ("192.168.1.2:7777", true),
            ("workstation:1", true),
            ("evil.example:7777", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("", false),
            (":80", false),
        ] {
            let result = access().check_page(&headers(&[("host", host)]));
            assert_eq!(result.is_ok(), good, "{host}");
        }
        assert_eq!(access().check_page(&headers(&[])), Err(Denied::Host));
        let twice = headers(&[("host", "localhost"), ("host", "localhost")]);
        assert_eq!(access().check_page(&twice), Err(Denied::Host));
    }

    #[test]
    fn origins_are_the_own_page() {
        for (origin, good) in [
            ("http://localhost:7777", true),
            ("https://localhost:7777", true),
            ("http://localhost:7778", false),
            ("http://localhost", false),
            ("http://evil.example", false),
            ("null", false),
            ("", false),
        ] {
            let request = headers(&[("host", "localhost:7777"), ("origin", origin)]);
            assert_eq!(access().check_page(&request).is_ok(), good, "{origin}");
        }
    }

    #[test]
    fn tokens_come_as_header_or_in_the_query() {
        let right = headers(&[("authorization", "bearer 0123456789abcdef")]);
        let wrong = headers(&[("authorization", "Bearer 0123456789abcdeg")]);
        let basic = headers(&[("authorization", "Basic 0123456789abcdef")]);
        let none = headers(&[]);
        let query = Some("a=b&token=0123456789abcdef");
        assert_eq!(access().check_token(&right, None), Ok(()));
        assert_eq!(access().check_token(&wrong, None), Err(Denied::Token));
        assert_eq!(access().check_token(&basic, None), Err(Denied::Token));
        assert_eq!(access().check_token(&none, None), Err(Denied::Token));
        assert_eq!(access().check_token(&none, query), Ok(()));
        assert_eq!(access().check_token(&none, Some("token=")), Err(Denied::Token));
    }

    #[test]
    fn random_tokens_are_fit_and_differ() {
        let (first, second) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(first.text().len(), 32);
        assert_ne!(first.text(), second.text());
        assert!(Token::from_text(first.text()).is_ok());
        assert!(Token::from_text("short").is_err());
        assert!(Token::from_text("has a space in the middle").is_err());
        assert!(!format!("{first:?}").contains(first.text()));
    }
}
