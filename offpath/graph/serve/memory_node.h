// A memory node: serves batches, hops, adjacency lists and feature rows of one store over a wire.
//
// Every client gets a session: one thread that receives its requests, and `workers` threads that
// answer them in order of arrival. A near request is sampled, gathered and quantized straight into
// the frames that leave (EncodeRows writes into the channel's own buffers). A client that is behind
// holds up its own session only: its buffers run out and its workers wait, to a deadline.
//
// A client's place (max_clients of them) is taken from its handshake until its connection is
// closed. One that opens no plan and asks for nothing loses it after plan_timeout; one with a plan
// open may be silent for idle_timeout, since a trainer may take long between two epochs, and
// connects again by itself where that was too short.
//
// Threading: Start() and Stop() from one thread; the rest from any. Errors of a request go to the
// client that made it; errors of a connection end that session; neither ends the node.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "offpath/codec/rows.h"
#include "offpath/graph/store/store.h"
#include "offpath/wire/channel.h"

namespace offpath::graph {

struct MemoryNodeOptions {
  wire::TcpAddress listen{"127.0.0.1", 0};
  // There is no authentication in this version, so any other address than loopback must be asked
  // for.
  bool unauthenticated = false;
  size_t workers = 1;          // threads a client
  size_t max_clients = 64;     // one more is refused with an Error that says so
  size_t max_plans = 16;       // open at once a client
  size_t max_requests = 1024;  // waiting at once a client
  // Of node ids that a client's requests hold while they wait, and as much again of its plans'.
  uint64_t max_id_bytes = uint64_t{1} << 31;
  // Of one batch, hop or adjacency list as it is sampled: 32 bytes an edge (source, destination,
  // edge id, and the id of a new node) and as much a seed. One that would take more is refused
  // before it does. A client's workers each hold one, and what it is packed into, about as much
  // again.
  uint64_t max_batch_bytes = uint64_t{1} << 30;
  codec::RowFormat features = {};  // for plans that leave the format to the node
  wire::ChannelOptions channel = {};
  std::chrono::nanoseconds send_timeout = std::chrono::seconds(60);  // a client that reads nothing
  std::chrono::nanoseconds plan_timeout = std::chrono::seconds(10);  // silence before a plan
  std::chrono::nanoseconds idle_timeout = std::chrono::minutes(30);  // silence with a plan open
  std::function<void(const std::string&)> log = {};  // one line an event; may be empty; any thread
};

struct MemoryNodeStats {
  uint64_t clients = 0;  // that hold a place now
  uint64_t clients_total = 0;
  uint64_t batches = 0;     // near requests answered
  uint64_t requests = 0;    // of all kinds
  uint64_t bytes_sent = 0;  // of sessions that ended and of those that run
};

class MemoryNode {
 public:
  MemoryNode(std::shared_ptr<const Store> store, MemoryNodeOptions options);
  ~MemoryNode();  // Stop() with no grace
  MemoryNode(const MemoryNode&) = delete;
  MemoryNode& operator=(const MemoryNode&) = delete;

  // Begins to accept; returns at once.
  void Start();
  // The address to connect to, with the chosen port.
  std::string address() const;
  // Refuses new requests, finishes the accepted ones for up to `grace`, then closes every session.
  void Stop(std::chrono::nanoseconds grace);
  MemoryNodeStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace offpath::graph
