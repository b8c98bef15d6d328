//! The Model Context Protocol, by its official SDK: the supervisor's tools and what it knows
//! as resources, over stdio or loopback HTTP. The adapter holds no key and no credential:
//! whose the tools are is the supervisor's business.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate, ResourceUpdatedNotificationParam,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, ToolAnnotations,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, RoleServer, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use wikala_chain::nonce;
use wikala_witness::obligation::ObligationId;

use crate::exit::Failure;
use crate::supervisor::desk::No;
use crate::supervisor::ipc::Local;
use crate::supervisor::tools::{TOOLS, Tool};

/// The inbox as a resource.
const INBOX: &str = "wikala://inbox";
/// What stands before an obligation's id.
const OBLIGATION: &str = "wikala://obligation/";
/// How long the supervisor is left alone when it went away.
const AGAIN: Duration = Duration::from_secs(1);
/// The largest request over HTTP, bytes.
const BODY: usize = 1024 * 1024;

/// One client's session.
#[derive(Debug, Clone)]
pub struct Adapter {
    local: Local,
    /// Counts up with each change that the supervisor tells of.
    changes: watch::Receiver<u64>,
    subscribed: Arc<Mutex<HashSet<String>>>,
}

/// Follows the supervisor of a directory, as long as somebody listens.
#[must_use]
pub fn follow(local: &Local) -> watch::Receiver<u64> {
    let (changes, heard) = watch::channel(0);
    let local = local.clone();
    tokio::spawn(async move {
        while !changes.is_closed() {
            // The first is what is so, not what changed.
            let mut first = true;
            let told = local.watch(|_| {
                changes.send_modify(|times| *times += u64::from(!first));
                first = false;
            });
            tokio::select! {
                _ = told => {}
                () = changes.closed() => return,
            }
            tokio::time::sleep(AGAIN).await;
        }
    });
    heard
}

impl Adapter {
    /// An adapter of the supervisor that serves a directory.
    #[must_use]
    pub fn new(local: Local, changes: watch::Receiver<u64>) -> Adapter {
        Adapter { local, changes, subscribed: Arc::default() }
    }

    fn subscribed(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, uri: &str) -> Result<Value, ErrorData> {
        let unknown = || ErrorData::resource_not_found(format!("{uri}: not known here"), None);
        let read = match (uri, uri.strip_prefix(OBLIGATION)) {
            (INBOX, _) => self.local.call("wikala.obligation.inbox", &json!({})).await,
            (_, Some(id)) if ObligationId::parse(id).is_some() => {
                self.local.call("wikala.obligation.get", &json!({ "obligation_id": id })).await
            }
            _ => return Err(unknown()),
        };
        read.map_err(|no| match no {
            No::Refused { ref code, .. } if code == "obligation-unavailable" => unknown(),
            other => ErrorData::internal_error(format!("{}: {}", other.code(), other.sentence()), None),
        })
    }

    /// Tells a client of an older protocol what it subscribed to, as it changes.
    async fn tell(mut self, peer: Peer<RoleServer>) {
        while self.changes.changed().await.is_ok() {
            let subscribed: Vec<String> = self.subscribed().iter().cloned().collect();
            for uri in subscribed {
                if peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_err() {
                    return;
                }
            }
            if peer.notify_resource_list_changed().await.is_err() {
                return;
            }
        }
    }
}

fn shown(tool: &Tool, name: String) -> rmcp::model::Tool {
    let mut shown = rmcp::model::Tool::new(name, tool.description, Arc::new(tool.schema()));
    shown.title = Some(tool.title.to_owned());
    shown.annotations = Some(
        ToolAnnotations::with_title(tool.title)
            .read_only(tool.read_only)
            .destructive(tool.destructive)
            .idempotent(tool.read_only)
            .open_world(!tool.read_only),
    );
    shown
}

#[allow(deprecated)] // clients of today subscribe by the older method
impl ServerHandler for Adapter {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .build();
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new("wikala", env!("CARGO_PKG_VERSION")).with_title("Wikala");
        info.instructions = Some(
            "Obligations are answers that are owed. Read the inbox first; accept a question before you work on it, and \
             close it with a response that fits the agreed schema. Words close nothing."
                .to_owned(),
        );
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // Each by its name, and by one without dots for clients that refuse them.
        let names = TOOLS.iter().flat_map(|tool| [shown(tool, tool.name.to_owned()), shown(tool, tool.alias())]);
        Ok(ListToolsResult::with_all_items(names.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<rmcp::model::Tool> {
        Tool::named(name).map(|tool| shown(tool, name.to_owned()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::named(&request.name) else {
            return Err(ErrorData::invalid_params(format!("tool: {:?} is not known", request.name), None));
        };
        let arguments = request.arguments.map_or(Value::Null, Value::Object);
        // A refusal is an answer, for the model to read.
        Ok(match self.local.call(tool.name, &arguments).await {
            Ok(result) => CallToolResult::structured(result),
            Err(no) => CallToolResult::structured_error(json!({ "code": no.code(), "message": no.sentence() })),
        }
        .into())
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let inbox = Resource::new(INBOX, "inbox").with_title("What waits for whom").with_mime_type("application/json");
        let mut resources = vec![inbox];
        // Without the witness there is the inbox, as it was counted last.
        if let Ok(list) = self.local.call("wikala.obligation.list", &json!({ "limit": 1000 })).await {
            let all = list["obligations"].as_array().into_iter().flatten();
            resources.extend(all.filter_map(|view| {
                let id = view["obligation_id"].as_str()?;
                let state = view["state"].as_str().unwrap_or("");
                let resource = Resource::new(format!("{OBLIGATION}{id}"), id).with_mime_type("application/json");
                Some(resource.with_description(format!("{state}, revision {}", view["revision"])))
            }));
        }
        Ok(ListResourcesResult::with_all_items(resources))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new(format!("{OBLIGATION}{{id}}"), "obligation")
            .with_title("An obligation with its history")
            .with_mime_type("application/json");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let words = self.read(&request.uri).await?;
        let contents = ResourceContents::text(words.to_string(), request.uri).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.read(&request.uri).await?;
        self.subscribed().insert(request.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscribed().remove(&request.uri);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        tokio::spawn(self.clone().tell(context.peer));
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.clone();
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                heard = changes.changed() => if heard.is_err() { return Ok(()) },
            }
            for uri in &uris {
                let _ = context.sink().notify_resource_updated(uri.clone()).await;
            }
            let _ = context.sink().notify_resource_list_changed().await;
        }
    }
}

/// Serves one client on stdin and stdout, until it goes.
///
/// # Errors
/// 3: nobody serves the directory; the client speaks no MCP.
pub async fn stdio(dir: &Path) -> Result<(), Failure> {
    let local = there(dir).await?;
    let adapter = Adapter::new(local.clone(), follow(&local));
    let failed = |why: String| Failure::environment(format!("mcp: {why}"));
    let served = adapter.serve(rmcp::transport::stdio()).await.map_err(|error| failed(error.to_string()))?;
    served.waiting().await.map(|_| ()).map_err(|error| failed(error.to_string()))
}

/// Serves clients over streamable HTTP on loopback, at an address that only who may read the
/// directory knows: other users of the machine reach loopback too.
///
/// # Errors
/// 2: not a loopback address. 3: nobody serves the directory; the port is taken.
pub async fn http(dir: &Path, listen: SocketAddr) -> Result<(), Failure> {
    if !listen.ip().is_loopback() {
        return Err(Failure::usage("--listen: not on loopback, write 127.0.0.1:PORT"));
    }
    let local = there(dir).await?;
    let changes = follow(&local);
    let config = StreamableHttpServerConfig::default()
        .with_max_request_body_bytes(BODY)
        // A page in a browser has an origin, and none of them is asked for.
        .enforce_origin_validation();
    let sessions = Arc::new(LocalSessionManager::default());
    let service =
        StreamableHttpService::new(move || Ok(Adapter::new(local.clone(), changes.clone())), sessions, config);
    let failed = |error: std::io::Error| Failure::environment(format!("mcp: {listen} cannot be listened on ({error})"));
    let listener = tokio::net::TcpListener::bind(listen).await.map_err(failed)?;
    let path = format!("/mcp/{}", nonce());
    let url = format!("http://{}{path}", listener.local_addr().map_err(failed)?);
    keep(&dir.join("mcp.url"), &url)?;
    crate::cli::io::say(format!("mcp: {url}"))?;
    let router = axum::Router::new().route_service(&path, service);
    axum::serve(listener, router).await.map_err(failed)
}

async fn there(dir: &Path) -> Result<Local, Failure> {
    let local = Local::of(dir);
    local.there().await.map_err(|no| Failure::environment(no.sentence()))?;
    Ok(local)
}

fn keep(file: &Path, url: &str) -> Result<(), Failure> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |error| Failure::environment(format!("dir: {} cannot be written ({error})", file.display()));
    let _ = std::fs::remove_file(file);
    let mut kept = std::fs::File::options().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    writeln!(kept, "{url}").map_err(failed)
}
