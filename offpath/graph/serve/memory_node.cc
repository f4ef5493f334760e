#include "offpath/graph/serve/memory_node.h"

#include <algorithm>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "offpath/base/crc32c.h"
#include "offpath/base/mapped_file.h"
#include "offpath/graph/protocol/message_stream.h"
#include "offpath/graph/serve/session.h"

namespace offpath::graph {
namespace {

constexpr auto kAcceptPoll = std::chrono::milliseconds(200);

StoreInfo InfoOf(const Store& store) {
  StoreInfo info;
  const MappedFile manifest(store.folder() + "/store.json", AccessPattern::kSequential);
  info.fingerprint = Crc32c(manifest.bytes());
  info.description = store.description();
  for (const NodeType& type : store.node_types()) {
    NodeTypeInfo node;
    node.name = type.name;
    node.count = type.count;
    node.feature_dim = type.features.data == nullptr ? -1 : type.features.dim;
    node.num_classes = type.num_classes;
    node.has_labels = !type.labels.empty();
    for (const auto& [name, nodes] : type.splits) {
      node.splits.emplace_back(name, static_cast<int64_t>(nodes.size()));
    }
    info.node_types.push_back(std::move(node));
  }
  for (const EdgeType& type : store.edge_types()) {
    info.edge_types.push_back({type.src, type.relation, type.dst,
                               static_cast<uint32_t>(type.src_type),
                               static_cast<uint32_t>(type.dst_type), type.csc.num_edges});
  }
  return info;
}

}  // namespace

struct MemoryNode::State {
  struct Client {
    std::unique_ptr<Session> session;
    std::thread thread;
  };

  std::shared_ptr<const Store> store;
  MemoryNodeOptions options;
  StoreInfo info;
  std::unique_ptr<wire::Listener> listener;
  std::thread acceptor;
  std::atomic<bool> stopping{false};

  mutable std::mutex mutex;
  std::list<Client> clients;
  MemoryNodeStats ended;  // sums over sessions that are gone

  void Log(const std::string& line) const {
    if (options.log) options.log(line);
  }

  void Count(const Session& session, MemoryNodeStats& stats) const {
    stats.batches += session.batches();
    stats.requests += session.requests();
    stats.bytes_sent += session.channel_stats().bytes_sent;
    stats.payload_copies += session.channel_stats().payload_copies;
  }

  // Joins and forgets the sessions that are over.
  void Reap() {
    const std::lock_guard lock(mutex);
    for (auto it = clients.begin(); it != clients.end();) {
      if (!it->session->finished()) {
        ++it;
        continue;
      }
      it->thread.join();
      Log(it->session->peer() + " left after " + std::to_string(it->session->batches()) +
          " batches");
      Count(*it->session, ended);
      it = clients.erase(it);
    }
  }

  void Admit(std::unique_ptr<wire::Channel> channel) {
    const std::lock_guard lock(mutex);
    if (clients.size() >= options.max_clients) {
      const Error full(ErrorCode::kResourceExhausted,
                       "the memory node serves " + std::to_string(options.max_clients) +
                           " clients already: raise --max-clients or try later");
      SendEncoded(*channel, MessageType::kError, 0, full, Deadline::After(std::chrono::seconds(1)));
      return;
    }
    Log(channel->peer() + " connected");
    ++ended.clients_total;
    Client client;
    client.session = std::make_unique<Session>(store, options, info, std::move(channel));
    clients.emplace_back();  // first, so that nothing can fail once the thread runs
    try {
      client.thread = std::thread([session = client.session.get()] { session->Run(); });
    } catch (...) {
      clients.pop_back();
      throw;
    }
    clients.back() = std::move(client);
  }

  // A client's trouble, or a passing shortage of descriptors, threads or memory: none may end the
  // node.
  void LogFailedAccept(const std::exception& error) const {
    if (stopping) return;
    Log(std::string("accepting a client: ") + error.what());
    std::this_thread::sleep_for(kAcceptPoll);
  }

  void AcceptClients() {
    while (!stopping) {
      try {
        Admit(listener->Accept(Deadline::After(kAcceptPoll)));
      } catch (const Error& error) {
        // A time-out is the usual case.
        if (error.code() != ErrorCode::kTimeout) LogFailedAccept(error);
      } catch (const std::exception& error) {
        LogFailedAccept(error);
      }
      Reap();
    }
  }
};

MemoryNode::MemoryNode(std::shared_ptr<const Store> store, MemoryNodeOptions options)
    : state_(std::make_unique<State>()) {
  if (options.workers == 0)
    throw Error(ErrorCode::kInvalidArgument, "a memory node needs a worker");
  codec::CheckFormat(options.features);
  if (!options.unauthenticated && !wire::IsLoopback(options.listen)) {
    throw Error(ErrorCode::kInvalidArgument,
                "listening on " + wire::FormatTcpAddress(options.listen) +
                    " would serve the graph to anyone who can reach it: use a loopback address, or "
                    "--unauthenticated on a network that you trust");
  }
  state_->info = InfoOf(*store);
  state_->store = std::move(store);
  state_->options = std::move(options);
  state_->listener = wire::ListenTcp(state_->options.listen, state_->options.channel);
}

MemoryNode::~MemoryNode() { Stop(std::chrono::nanoseconds(0)); }

void MemoryNode::Start() {
  state_->acceptor = std::thread([state = state_.get()] { state->AcceptClients(); });
}

std::string MemoryNode::address() const { return state_->listener->address(); }

void MemoryNode::Stop(std::chrono::nanoseconds grace) {
  if (state_->stopping.exchange(true)) return;
  state_->listener->Close();
  if (state_->acceptor.joinable()) state_->acceptor.join();
  {
    const std::lock_guard lock(state_->mutex);
    for (auto& client : state_->clients) client.session->Drain();
  }
  const Deadline deadline = Deadline::After(grace);
  while (!deadline.expired()) {
    state_->Reap();
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->clients.empty()) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::lock_guard lock(state_->mutex);
  for (auto& client : state_->clients) client.session->Abort();
  for (auto& client : state_->clients) client.thread.join();
  state_->clients.clear();
}

MemoryNodeStats MemoryNode::stats() const {
  const std::lock_guard lock(state_->mutex);
  MemoryNodeStats stats = state_->ended;
  for (const auto& client : state_->clients) {
    ++stats.clients;
    state_->Count(*client.session, stats);
  }
  return stats;
}

}  // namespace offpath::graph
