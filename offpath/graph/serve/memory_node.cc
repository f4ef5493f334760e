#include "offpath/graph/serve/memory_node.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "offpath/graph/protocol/message_stream.h"
#include "offpath/graph/serve/session.h"

namespace offpath::graph {
namespace {

constexpr auto kAcceptPoll = std::chrono::milliseconds(200);
constexpr auto kReapPoll = std::chrono::milliseconds(5);
// Clients that are being told that there is no place; more of them wait to be accepted.
constexpr size_t kMaxRefused = 64;

StoreInfo InfoOf(const Store& store) {
  StoreInfo info;
  info.fingerprint = store.fingerprint();
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
  // A connection, from its admission until its own thread has closed it.
  struct Client {
    std::unique_ptr<Session> session;  // null once its figures are in `ended`
    bool refused = false;              // is only told so, and holds no client's place
    bool gone = false;                 // its thread needs only to be joined
    std::thread thread;

    bool HoldsPlace() const noexcept { return !refused && !gone; }
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

  static void Count(const Session& session, MemoryNodeStats& stats) {
    stats.batches += session.batches();
    stats.requests += session.requests();
    stats.bytes_sent += session.channel_stats().bytes_sent;
  }

  // A client's thread. It also closes the connection: that takes up to the channel's close timeout
  // where the peer reads nothing, and must hold up nobody else.
  void ServeClient(Client& client) noexcept {
    if (client.refused) {
      client.session->Refuse(Error(ErrorCode::kResourceExhausted,
                                   "the memory node serves " + std::to_string(options.max_clients) +
                                       " clients already: raise --max-clients or try later"));
    } else {
      client.session->Run();
    }
    std::unique_ptr<Session> over;
    {
      const std::lock_guard lock(mutex);
      Count(*client.session, ended);
      over = std::move(client.session);
    }
    Log(over->peer() + (client.refused
                            ? " was refused: all places are taken"
                            : " left after " + std::to_string(over->batches()) + " batches"));
    over.reset();
    const std::lock_guard lock(mutex);
    client.gone = true;
  }

  // Forgets the clients whose threads are done.
  void Reap() {
    std::list<Client> gone;
    {
      const std::lock_guard lock(mutex);
      for (auto it = clients.begin(); it != clients.end();) {
        const auto next = std::next(it);
        if (it->gone) gone.splice(gone.end(), clients, it);
        it = next;
      }
    }
    for (Client& client : gone) client.thread.join();
  }

  size_t CountRefused() const {
    const std::lock_guard lock(mutex);
    return static_cast<size_t>(std::count_if(clients.begin(), clients.end(),
                                             [](const Client& client) { return client.refused; }));
  }

  void Admit(std::unique_ptr<wire::Channel> channel) {
    Log(channel->peer() + " connected");
    auto session = std::make_unique<Session>(store, options, info, std::move(channel));
    const std::lock_guard lock(mutex);
    const auto served = static_cast<size_t>(std::count_if(
        clients.begin(), clients.end(), [](const Client& client) { return client.HoldsPlace(); }));
    Client& client = clients.emplace_back();  // first: nothing can fail once the thread runs
    client.session = std::move(session);
    client.refused = served >= options.max_clients;
    try {
      client.thread = std::thread([this, &client] { ServeClient(client); });
    } catch (...) {
      clients.pop_back();
      throw;
    }
    if (!client.refused) ++ended.clients_total;
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
      Reap();
      if (CountRefused() >= kMaxRefused) {
        std::this_thread::sleep_for(kReapPoll);
        continue;
      }
      try {
        Admit(listener->Accept(Deadline::After(kAcceptPoll)));
      } catch (const Error& error) {
        // A time-out is the usual case.
        if (error.code() != ErrorCode::kTimeout) LogFailedAccept(error);
      } catch (const std::exception& error) {
        LogFailedAccept(error);
      }
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
    for (auto& client : state_->clients) {
      if (client.session != nullptr) client.session->Drain();
    }
  }
  const Deadline deadline = Deadline::After(grace);
  while (!deadline.expired()) {
    state_->Reap();
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->clients.empty()) return;
    }
    std::this_thread::sleep_for(kReapPoll);
  }
  std::list<State::Client> rest;
  {
    const std::lock_guard lock(state_->mutex);
    for (auto& client : state_->clients) {
      if (client.session != nullptr) client.session->Abort();
    }
    rest.splice(rest.end(), state_->clients);
  }
  // Without the lock, which the threads take on their way out.
  for (auto& client : rest) client.thread.join();
}

MemoryNodeStats MemoryNode::stats() const {
  const std::lock_guard lock(state_->mutex);
  MemoryNodeStats stats = state_->ended;
  for (const auto& client : state_->clients) {
    stats.clients += client.HoldsPlace();
    if (client.session != nullptr) State::Count(*client.session, stats);
  }
  return stats;
}

}  // namespace offpath::graph
