//! `retro serve` and `retro ui`: answers questions about a recording over sockets, HTTP and WebSocket, and shows it in a browser.
//!
//! The work is done by [`retro_server`] and by the page in [`retro_ui`]; here is what a user meets: the recording is indexed
//! before anybody can ask, and where to ask is printed when the first question can be answered.

mod browser;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use retro_query::{Options as RunOptions, Run};
use retro_server::{Address, Endpoint, Options, Server, Token, questions};
use retro_symbols::SourceFiles;

use crate::arguments::{ServeOptions, UiOptions};
use crate::engine_file::EngineFile;
use crate::output::Output;
use crate::{Completeness, index, quoting, selection};

/// Any free port of this machine.
const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Serves until a signal tells it to stop.
pub fn serve(options: &ServeOptions) -> Result<Completeness> {
    serve_and(options, |_| ())
}

/// Serves the page, and opens it in a browser where there is one.
pub fn ui(options: &UiOptions) -> Result<Completeness> {
    serve_and(&options.as_serve_options(), |page| {
        if !options.no_browser && browser::is_there() {
            browser::open(page);
        }
    })
}

fn serve_and(options: &ServeOptions, ready: impl FnOnce(&str)) -> Result<Completeness> {
    let sources = source_files(options)?;
    let recording = selection::open(options.recording.as_deref())?;
    let name = selection::name_of(recording.directory());
    let engine = EngineFile::new(&[Path::new("."), recording.directory()])?;
    let run_options = RunOptions { sources, warm_up: true, ..RunOptions::default() };
    let run = Run::open(recording, engine.path().to_owned(), run_options)?;
    index::ensure(run.replayer())?;
    let token = if options.no_token { None } else { Some(Token::random()?) };
    let server = Server::bind(Arc::new(questions(run)), server_options(options, token.clone()))?;
    let addresses = server.addresses();
    announce(&name, &addresses, token.as_ref())?;
    let port = addresses.iter().find_map(|address| match address {
        Address::Tcp(address) => Some(address),
        Address::Unix(_) => None,
    });
    if let Some(address) = port {
        ready(&page(address, token.as_ref()));
    }
    server.run_until_signal()?;
    Ok(Completeness::Whole)
}

fn source_files(options: &ServeOptions) -> Result<SourceFiles> {
    let mut sources = SourceFiles::new();
    for map in &options.source_map {
        sources.add_map(map)?;
    }
    for directory in &options.source_dir {
        sources.add_directory(directory);
    }
    Ok(sources)
}

fn server_options(options: &ServeOptions, token: Option<Token>) -> Options {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    endpoints.extend(options.socket.clone().map(Endpoint::Unix));
    endpoints.extend(options.listen.map(Endpoint::Tcp));
    if endpoints.is_empty() {
        endpoints.push(Endpoint::Tcp(ANY_PORT));
    }
    let allow_remote = options.allow_remote;
    Options { endpoints, token, allow_remote, files: retro_ui::FILES, ..Options::default() }
}

/// Says where to ask, one place a line, for people and for programs that start a server.
fn announce(name: &str, addresses: &[Address], token: Option<&Token>) -> Result<()> {
    let mut output = Output::new();
    output.line(&format!("serving {}", quoting::printable(name.as_bytes())))?;
    for address in addresses {
        match address {
            Address::Unix(path) => {
                let path = quoting::printable(path.as_os_str().as_encoded_bytes());
                output.line(&format!("socket: {path}"))?;
            }
            Address::Tcp(address) => {
                output.line(&format!("address: {address}"))?;
                if let Some(token) = token {
                    output.line(&format!("token: {}", token.text()))?;
                }
                output.line(&format!("page: {}", page(address, token)))?;
            }
        }
    }
    Ok(output.flush()?)
}

/// The page, with the token where no server and no other page gets to see it.
fn page(address: &SocketAddr, token: Option<&Token>) -> String {
    match token {
        Some(token) => format!("http://{address}/#token={}", token.text()),
        None => format!("http://{address}/"),
    }
}
