//! Who may call: those who show one of the tokens, or everyone if there are none.

use std::hint::black_box;
use std::sync::Arc;

use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::settings::Token;

/// The tokens that are accepted. There can be several, so that they can be changed while clients use the old one.
#[derive(Clone)]
pub(super) struct Tokens(Arc<[Token]>);

impl Tokens {
    pub(super) fn new(tokens: &[Token]) -> Self {
        Self(tokens.into())
    }

    fn accepts(&self, given: &str) -> bool {
        // Every token is compared, however early one fits, so that the time says nothing.
        let fitting = self.0.iter().filter(|Token(token)| is_same(token.as_bytes(), given.as_bytes()));
        fitting.count() > 0
    }
}

impl Interceptor for Tokens {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        if self.0.is_empty() {
            return Ok(request);
        }
        let Some(given) = request.metadata().get("authorization") else {
            return Err(Status::unauthenticated("a token is needed: send `authorization: Bearer <token>`"));
        };
        let token = given.to_str().ok().and_then(bearer);
        if token.is_some_and(|token| self.accepts(token)) {
            Ok(request)
        } else {
            Err(Status::unauthenticated("the token is not one that this assigner accepts"))
        }
    }
}

/// The token of a header. The name of the scheme may be in any case.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Takes as long whatever the first difference, so that a token cannot be guessed letter by letter.
fn is_same(expected: &[u8], given: &[u8]) -> bool {
    expected.len() == given.len()
        && black_box(expected.iter().zip(given).fold(0, |differences, (a, b)| differences | (a ^ b))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tokens: &[&str], header: Option<&str>) -> Result<(), tonic::Code> {
        let tokens: Vec<Token> = tokens.iter().map(|token| Token((*token).to_owned())).collect();
        let mut request = Request::new(());
        if let Some(header) = header {
            request.metadata_mut().insert("authorization", header.parse().expect("it is ASCII"));
        }
        Tokens::new(&tokens).call(request).map(drop).map_err(|status| status.code())
    }

    #[test]
    fn without_tokens_everyone_may_call() {
        assert_eq!(call(&[], None), Ok(()));
        assert_eq!(call(&[], Some("Bearer whatever")), Ok(()));
    }

    #[test]
    fn each_of_several_tokens_is_accepted() {
        for header in ["Bearer old", "Bearer new", "bearer new", "BEARER  new "] {
            assert_eq!(call(&["old", "new"], Some(header)), Ok(()), "{header}");
        }
    }

    #[test]
    fn whatever_is_no_token_is_refused() {
        let refused = Err(tonic::Code::Unauthenticated);
        assert_eq!(call(&["secret"], None), refused);
        for header in [
            "",
            "Bearer",
            "Bearer ",
            "secret",
            "Basic secret",
            "Bearer secre",
            "Bearer secrets",
            "Bearer Secret",
        ] {
            assert_eq!(call(&["secret"], Some(header)), refused, "{header}");
        }
    }

    #[test]
    fn an_answer_never_repeats_a_token() {
        let mut request = Request::new(());
        request.metadata_mut().insert("authorization", "Bearer wrong-one".parse().expect("it is ASCII"));
        let status =
            Tokens::new(&[Token("right-one".to_owned())]).call(request).expect_err("it is the wrong one");
        assert!(!status.message().contains("-one"), "{status:?}");
    }
}
