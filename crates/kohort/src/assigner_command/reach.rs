//! Reaching an instance of the assigner over gRPC, and what to say when it cannot be reached or refuses.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use assigner_client::Token;
use assigner_client::proto::kafka_assigner_admin_client::KafkaAssignerAdminClient;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

use super::secret_file::{read_pem, read_tokens};
use crate::cli::assigner::ReachArgs;
use crate::failure::{Failure, Kind};
use crate::output::plain;

/// What operators' questions go through.
pub(crate) type Admin = KafkaAssignerAdminClient<InterceptedService<Channel, Token>>;

/// Connects to the instance that the flags name.
pub(crate) async fn connect(args: &ReachArgs) -> anyhow::Result<Admin> {
    let url = url(&args.assigner);
    let timeout = Duration::from_secs(args.timeout);
    let wrong = |error: tonic::transport::Error| {
        let message = format!("--assigner {}: {}", plain(&args.assigner), causes(&error));
        Failure::new(Kind::Usage, message)
    };
    let mut endpoint =
        Endpoint::from_shared(url.clone()).map_err(wrong)?.connect_timeout(timeout).timeout(timeout);
    if let Some(tls) = tls(args, &url)? {
        endpoint = endpoint.tls_config(tls).map_err(wrong)?;
    }
    let token = token(args)?;
    let channel = endpoint.connect().await.map_err(|error| {
        let message = format!(
            "cannot reach an assigner at {}; is one running there? ({})",
            plain(&url),
            causes(&error)
        );
        Failure::new(Kind::Unreachable, message)
    })?;
    Ok(KafkaAssignerAdminClient::with_interceptor(channel, token).max_decoding_message_size(LARGEST_ANSWER))
}

/// A plan for a hundred thousand partitions has room in it.
const LARGEST_ANSWER: usize = 64 << 20;

fn url(text: &str) -> String {
    if text.contains("://") { text.to_owned() } else { format!("http://{text}") }
}

fn tls(args: &ReachArgs, url: &str) -> anyhow::Result<Option<ClientTlsConfig>> {
    let ReachArgs { ca_file, cert_file, key_file, .. } = args;
    if !url.starts_with("https://") {
        if ca_file.is_some() || cert_file.is_some() {
            let message = format!("{}: --ca-file and --cert-file are for https://", plain(url));
            return Err(Failure::new(Kind::Usage, message).into());
        }
        return Ok(None);
    }
    let Some(ca_file) = ca_file else {
        let message = "https needs --ca-file: whom to trust is not taken from the machine";
        return Err(Failure::new(Kind::Usage, message).into());
    };
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca_file)?));
    if let (Some(cert_file), Some(key_file)) = (cert_file, key_file) {
        tls = tls.identity(Identity::from_pem(read(cert_file)?, read(key_file)?));
    }
    Ok(Some(tls))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_pem(path)
        .map_err(|problem| Failure::new(Kind::Usage, format!("{}: {problem}", path.display())).into())
}

fn token(args: &ReachArgs) -> anyhow::Result<Token> {
    let Some(file) = &args.token_file else { return Ok(Token::default()) };
    let wrong = |problem: String| Failure::new(Kind::Usage, format!("{}: {problem}", file.display()));
    // The file may be the instance's own, in which the newest token comes first.
    let tokens = read_tokens(file).map_err(wrong)?;
    let first = tokens.first().ok_or_else(|| wrong("holds no token".to_owned()))?;
    Ok(Token::new(first).map_err(|_| wrong("the token is not ASCII".to_owned()))?)
}

/// A refusal with the exit code that scripts expect for it; `wish` says what for, as "show the status" does.
pub(crate) fn failure(wish: &str, status: &Status) -> anyhow::Error {
    if let Some(source) = status.source().filter(|source| source.is::<tonic::transport::Error>()) {
        let message = format!(
            "{}: the connection broke ({}); is it an assigner, and does it want TLS or a certificate?",
            plain(wish),
            causes(source)
        );
        return Failure::new(Kind::Unreachable, message).into();
    }
    let kind = match status.code() {
        Code::Unavailable | Code::DeadlineExceeded => Kind::Unreachable,
        Code::NotFound | Code::AlreadyExists => Kind::Absent,
        Code::InvalidArgument => Kind::Usage,
        _ => Kind::Failed,
    };
    let said = match status.message() {
        "" => status.code().description(),
        said => said,
    };
    let advice = match status.code() {
        Code::Unauthenticated => "; see --token-file and --cert-file",
        Code::Unimplemented => "; is it an assigner?",
        _ => "",
    };
    Failure::new(kind, format!("{}: {}{advice}", plain(wish), plain(said))).into()
}

/// An error with all that caused it: the outermost words of the transport alone say nothing.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    plain(&text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tonic::Request;
    use tonic::service::Interceptor;

    use super::*;

    fn args(assigner: &str) -> ReachArgs {
        ReachArgs {
            assigner: assigner.to_owned(),
            token_file: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            timeout: 1,
        }
    }

    #[test]
    fn an_address_without_a_scheme_is_plain() {
        assert_eq!(url("a:50051"), "http://a:50051");
        assert_eq!(url("https://a:50051"), "https://a:50051");
    }

    #[test]
    fn tls_and_its_files_go_together() {
        let refused = tls(&args("https://a"), "https://a").unwrap_err();
        assert!(refused.to_string().contains("needs --ca-file"), "{refused}");
        let mut plain = args("http://a");
        plain.ca_file = Some("ca.pem".into());
        assert!(tls(&plain, "http://a").unwrap_err().to_string().contains("are for https"));
        let missing = tls(&plain, "https://a").unwrap_err();
        assert!(missing.to_string().starts_with("ca.pem: cannot be read"), "{missing}");
    }

    #[test]
    fn a_token_is_shown_as_a_bearer_and_kept_out_of_logs() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"0123456789abcdef\n").unwrap();
        let mut args = args("http://a");
        assert!(token(&args).unwrap().call(Request::new(())).unwrap().metadata().is_empty());
        args.token_file = Some(file.path().to_owned());
        let request = token(&args).unwrap().call(Request::new(())).unwrap();
        let value = request.metadata().get("authorization").unwrap();
        assert_eq!(value.to_str().unwrap(), "Bearer 0123456789abcdef");
        assert!(!format!("{request:?}").contains("0123"));
    }

    #[test]
    fn refusals_have_exit_codes_and_leave_the_terminal_alone() {
        let code = |status: &Status| crate::failure::exit_code(&failure("wish", status));
        assert_eq!(code(&Status::not_found("x")), std::process::ExitCode::from(4));
        assert_eq!(code(&Status::unavailable("x")), std::process::ExitCode::from(3));
        assert_eq!(code(&Status::aborted("x")), std::process::ExitCode::from(1));
        let said = failure("cancel a\u{7}", &Status::unauthenticated("no\u{1b}[2J")).to_string();
        assert_eq!(said, "cancel a\\u{7}: no\\u{1b}[2J; see --token-file and --cert-file");
    }
}
