//! Third-party servers, and the gateway before one of them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use lro_tests::{free_port, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::Way;
use crate::support::{
    Environment, Process, driver, environment, installed, lro, mcp_package, node, path_text, python, words,
};
use crate::wire::{Wire, call, shake_hands};

/// Commits in the repository of the git server.
pub(crate) const COMMITS: usize = 500;

/// Entities in the graph of the memory server.
pub(crate) const ENTITIES: usize = 900;

/// Rows in the database.
pub(crate) const ROWS: usize = 3000;

/// A server on standard streams, with its files.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) command: Vec<String>,
    pub(crate) variables: Environment,
    /// Whether it speaks the revision 2026-07-28.
    pub(crate) modern: bool,
    pub(crate) files: TempDir,
}

impl Server {
    pub(crate) fn new(name: &'static str, command: Vec<String>) -> Self {
        Self { name, command, variables: Environment::new(), modern: false, files: TempDir::new().unwrap() }
    }

    /// The server alone.
    pub(crate) fn way(&self) -> Way {
        Way::Command(self.command.clone(), self.variables.clone())
    }

    /// The server alone, for a client of bytes.
    pub(crate) fn wire(&self) -> Wire {
        Wire::start(&self.command, &self.variables)
    }
}

/// The reference server with every feature.
pub(crate) fn everything() -> Server {
    Server::new("everything", vec![node(), mcp_package("server-everything/dist/index.js"), "stdio".to_owned()])
}

/// The reference server of files, on the directory of a data set.
pub(crate) fn filesystem(directory: &Path) -> Server {
    let directory = directory.canonicalize().unwrap();
    Server::new("filesystem", vec![node(), mcp_package("server-filesystem/dist/index.js"), path_text(&directory)])
}

/// The reference server of a knowledge graph, with a graph of [`ENTITIES`], each of the types in turn.
pub(crate) fn memory() -> Server {
    let mut server = Server::new("memory", vec![node(), mcp_package("server-memory/dist/index.js")]);
    let graph = path_text(&server.files.path().join("graph.jsonl"));
    server.variables = environment(&[("MEMORY_FILE_PATH", &graph)]);
    let entity = |number: usize| json!({"name": format!("Entity {number}"), "entityType": entity_type(number), "observations": [format!("saw {number}")]});
    let entities: Vec<Value> = (0..ENTITIES).map(entity).collect();
    let mut wire = server.wire();
    shake_hands(&mut wire);
    wire.result(&call(1, &json!({"name": "create_entities", "arguments": {"entities": entities}}), false));
    server
}

/// The type of an entity.
pub(crate) fn entity_type(number: usize) -> &'static str {
    ["person", "place", "thing", "idea"][number % 4]
}

/// The reference server of git, on a repository of [`COMMITS`].
pub(crate) fn git() -> Server {
    let mut server = Server::new("git", Vec::new());
    let repository = path_text(&server.files.path().join("repository"));
    server.command =
        vec![python(), "-m".to_owned(), "mcp_server_git".to_owned(), "--repository".to_owned(), repository.clone()];
    server.modern = true;
    let mut history = String::new();
    for number in 0..COMMITS {
        let message = format!("Change number {number}\n\nNobody knows why.\n");
        let time = 1_700_000_000 + 60 * number;
        history.push_str(&format!(
            "commit refs/heads/main\ncommitter Author {} <author@example.org> {time} +0000\ndata {}\n{message}\
             M 100644 inline file\ndata <<END\n{number}\nEND\n\n",
            number % 7,
            message.len()
        ));
    }
    run_git(&server, &["init", "--quiet", "--initial-branch=main", &repository], "");
    run_git(&server, &["-C", &repository, "fast-import", "--quiet"], &history);
    run_git(&server, &["-C", &repository, "reset", "--quiet", "--hard"], "");
    server
}

fn run_git(server: &Server, arguments: &[&str], input: &str) {
    let input_file = server.files.path().join("input");
    std::fs::write(&input_file, input).unwrap();
    let output = Command::new("git")
        .args(arguments)
        .stdin(std::fs::File::open(&input_file).unwrap())
        .output()
        .unwrap_or_else(|error| panic!("git: {error}: run `make test-data`"));
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Arguments of a tool of the git server.
pub(crate) fn of_repository(server: &Server, tool: &str, mut arguments: Value) -> Value {
    arguments["repo_path"] = path_text(&server.files.path().join("repository")).into();
    json!({"name": tool, "arguments": arguments})
}

/// The reference server for times.
pub(crate) fn time() -> Server {
    let command = [&python(), "-m", "mcp_server_time", "--local-timezone", "UTC"];
    Server { modern: true, ..Server::new("time", words(&command)) }
}

/// The reference server that fetches pages.
pub(crate) fn fetch() -> Server {
    let command = [&python(), "-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips"];
    Server { modern: true, ..Server::new("fetch", words(&command)) }
}

/// The archived reference server of a database, with [`ROWS`] in the table `numbers`.
pub(crate) fn sqlite() -> Server {
    let mut server = Server::new("sqlite", Vec::new());
    let database = path_text(&server.files.path().join("numbers.db"));
    server.command = vec![installed("venv-sqlite/bin/mcp-server-sqlite"), "--db-path".to_owned(), database];
    let insert = format!(
        "insert into numbers with recursive number(n) as (select 0 union all select n + 1 from number where n < {}) \
         select n, 'number ' || n from number",
        ROWS - 1
    );
    let mut wire = server.wire();
    shake_hands(&mut wire);
    let create = "create table numbers (id integer, name text)";
    wire.result(&call(1, &json!({"name": "create_table", "arguments": {"query": create}}), false));
    wire.result(&call(2, &json!({"name": "write_query", "arguments": {"query": insert}}), false));
    server
}

/// A server that runs SQL with DuckDB, and answers with columns and rows.
pub(crate) fn motherduck() -> Server {
    let program = installed("venv-tables/bin/mcp-server-motherduck");
    let flags = ["--db-path", ":memory:", "--read-write", "--max-rows", "5000"].map(str::to_owned);
    Server::new("motherduck", std::iter::once(program).chain(flags).collect())
}

/// A server of spreadsheets, with one that has the rows of a CSV file.
pub(crate) fn excel(csv: &Path) -> Server {
    let mut server = Server::new("excel", vec![installed("venv-tables/bin/excel-mcp-server"), "stdio".to_owned()]);
    server.variables = environment(&[("EXCEL_FILES_PATH", &path_text(server.files.path()))]);
    std::fs::copy(csv, server.files.path().join("table.csv")).unwrap();
    let mut wire = server.wire();
    shake_hands(&mut wire);
    let (create, import) =
        (json!({"path": "table.xlsx"}), json!({"path": "table.xlsx", "csv_path": "table.csv", "sheet": "Sheet1"}));
    wire.result(&call(1, &json!({"name": "create_workbook", "arguments": create}), false));
    wire.result(&call(2, &json!({"name": "import_csv", "arguments": import}), false));
    server
}

/// A server that searches files with `rg`.
pub(crate) fn ripgrep() -> Server {
    let mut server = Server::new("ripgrep", vec![node(), installed("mcp/node_modules/mcp-ripgrep/dist/index.js")]);
    let platform = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let program = installed(&format!("mcp/node_modules/@vscode/ripgrep-linux-{platform}/bin/rg"));
    let folder = program.strip_suffix("/rg").unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    server.variables = environment(&[("PATH", &format!("{folder}:{path}"))]);
    server
}

/// A FastMCP server with paginated lists.
pub(crate) fn paged() -> Server {
    Server { modern: true, ..Server::new("paged", vec![python(), driver("paged_server.py")]) }
}

/// A server of revision 2026-07-28 alone, of the TypeScript SDK.
pub(crate) fn modern() -> Server {
    let program = path_text(&workspace().join("tests/tools/servers/modern.mjs"));
    let modules = installed("mcp/node_modules");
    Server { modern: true, ..Server::new("modern", vec![node(), program, modules]) }
}

/// A server over HTTP.
pub(crate) struct HttpServer {
    pub(crate) url: String,
    _process: Process,
}

/// The reference server with every feature, over HTTP. It speaks legacy revisions, in sessions.
pub(crate) fn everything_over_http() -> HttpServer {
    let port = free_port();
    let command = [node(), mcp_package("server-everything/dist/index.js"), "streamableHttp".to_owned()];
    let mut process = Process::start(&command, &environment(&[("PORT", &port.to_string())]));
    process.told("listening on port");
    HttpServer { url: format!("http://127.0.0.1:{port}/mcp"), _process: process }
}

/// The FastMCP server over HTTP. It speaks 2026-07-28.
pub(crate) fn paged_over_http() -> HttpServer {
    let port = free_port();
    let command = [python(), driver("paged_server.py"), port.to_string()];
    let mut process = Process::start(&command, &Environment::new());
    process.told("Uvicorn running on");
    HttpServer { url: format!("http://127.0.0.1:{port}/mcp"), _process: process }
}

/// The FastMCP server whose tools return lists in pages.
pub(crate) fn lists() -> Server {
    Server { modern: true, ..Server::new("lists", vec![python(), driver("list_server.py")]) }
}

/// The same over HTTP.
pub(crate) fn lists_over_http() -> HttpServer {
    let port = free_port();
    let command = [python(), driver("list_server.py"), port.to_string()];
    let mut process = Process::start(&command, &Environment::new());
    process.told("Uvicorn running on");
    HttpServer { url: format!("http://127.0.0.1:{port}/mcp"), _process: process }
}

/// Serves this text at any path until the process ends; returns the address.
pub(crate) fn serve_text(text: String) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
                head.push(byte[0]);
            }
            let length = text.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(text.as_bytes()));
        }
    });
    format!("http://{address}")
}

/// The gateway, with a separate directory for its offloads.
pub(crate) struct Gateway {
    pub(crate) directory: TempDir,
    /// Variables besides those that every gateway gets.
    pub(crate) more: Environment,
    flags: Vec<String>,
}

/// A gateway that is served over HTTP.
pub(crate) struct Listening {
    pub(crate) url: String,
    pub(crate) process: Process,
}

impl Gateway {
    /// A gateway with these flags besides.
    pub(crate) fn new(flags: &[&str]) -> Self {
        Self { directory: TempDir::new().unwrap(), more: Environment::new(), flags: words(flags) }
    }

    /// Variables of the gateway and its children.
    pub(crate) fn variables(&self, more: &Environment) -> Environment {
        // All gateways of a run share what they compiled.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let mut variables =
            environment(&[("MCP_LRO_DIR", &path_text(self.directory.path())), ("XDG_CACHE_HOME", &path_text(&cache))]);
        variables.extend(self.more.iter().chain(more).map(|(name, value)| (name.clone(), value.clone())));
        variables
    }

    /// The command of the gateway before a server on standard streams.
    pub(crate) fn command(&self, server: &Server) -> Vec<String> {
        let mut command = self.words(&[]);
        command.push("--".to_owned());
        command.extend(server.command.iter().cloned());
        command
    }

    fn words(&self, more: &[&str]) -> Vec<String> {
        let mut command = vec![lro(), "gateway".to_owned(), "--log".to_owned(), "warn".to_owned()];
        command.extend(self.flags.iter().cloned());
        command.extend(words(more));
        command
    }

    /// The gateway on standard streams before a server on standard streams.
    pub(crate) fn before(&self, server: &Server) -> Way {
        Way::Command(self.command(server), self.variables(&server.variables))
    }

    /// The same, for a client of bytes.
    pub(crate) fn wire(&self, server: &Server) -> Wire {
        Wire::start(&self.command(server), &self.variables(&server.variables))
    }

    /// The gateway on standard streams before a server over HTTP.
    pub(crate) fn before_url(&self, url: &str) -> Way {
        Way::Command(self.words(&["--upstream", url]), self.variables(&Environment::new()))
    }

    /// The gateway over HTTP before a server on standard streams.
    pub(crate) fn listen(&self, server: &Server) -> Listening {
        let own: Vec<&str> = server.variables.keys().map(String::as_str).collect();
        let mut command = self.words(&["--listen", "127.0.0.1:0", "--env", &own.join(","), "--"]);
        command.extend(server.command.iter().cloned());
        Self::ready(Process::start(&command, &self.variables(&server.variables)))
    }

    /// The gateway over HTTP before a server over HTTP.
    pub(crate) fn listen_before_url(&self, url: &str) -> Listening {
        let command = self.words(&["--listen", "127.0.0.1:0", "--upstream", url]);
        Self::ready(Process::start(&command, &self.variables(&Environment::new())))
    }

    /// What is ready when it says so.
    pub(crate) fn ready(mut process: Process) -> Listening {
        let url = process.told("listening on ");
        Listening { url, process }
    }

    /// The files of an offload, by their names.
    pub(crate) fn files(&self, handle: &str) -> Vec<PathBuf> {
        let tenants = std::fs::read_dir(self.directory.path()).unwrap();
        let offload = tenants.map(|tenant| tenant.unwrap().path().join(handle)).find(|path| path.is_dir());
        let offload = offload.unwrap_or_else(|| panic!("there is no directory {handle}"));
        let mut files: Vec<PathBuf> = std::fs::read_dir(offload).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    }
}
