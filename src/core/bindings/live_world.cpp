#include "core/bindings/live_world.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "core/bindings/bind.hpp"

namespace chakra::bind::live {

namespace {

// Verbs of one actor without time passing; one that yields more spins.
constexpr int32_t kMostAtOnce = 1'000'000;

Verb& verb_of(nb::handle object) {
    return *nb::inst_ptr<Verb>(object);
}

bool is_true(nb::handle value) {
    int truth = PyObject_IsTrue(value.ptr());
    if (truth < 0) nb::raise_python_error();
    return truth;
}

nb::object tuple_of(std::vector<nb::object>& values) {
    nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(values.size())));
    for (size_t i = 0; i < values.size(); ++i)
        PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), values[i].release().ptr());
    values.clear();
    return tuple;
}

// Seconds as the clock counts them, to the nearest picosecond.
Time picoseconds(double seconds) {
    double ps = std::rint(seconds * 1e12);
    if (!(ps >= 0) || ps > static_cast<double>(sim::kHorizon))
        throw std::overflow_error("the latency of a way is longer than the clock has days");
    return static_cast<Time>(ps);
}

}  // namespace

World::World(sim::Workload site, sim::Topology links, bool flow, Messages messages, bool records)
    : how_(std::move(messages)),
      records_kept_(records),
      growing_(std::move(site), std::move(links), flow, *this) {}

int32_t World::add_actor(nb::object handle, nb::object name, int32_t device, bool daemon,
                         nb::object faults) {
    Actor actor;
    actor.handle = std::move(handle);
    actor.returned = nb::none();
    if (!faults.is_none()) actor.faults = std::move(faults);
    actor.device = device;
    actor.daemon = daemon;
    names_.emplace(nb::cast<std::string>(name), static_cast<int32_t>(actors_.size()));
    actors_.push_back(std::move(actor));
    return static_cast<int32_t>(actors_.size()) - 1;
}

void World::begin(int32_t actor, nb::object program, Time time) {
    int32_t f = new_fibre(actor, -1, 0);
    fibres_[f].generator = std::move(program);
    at(time, kWake, f, fibres_[f].version);
}

void World::crash_at(int32_t actor, Time time, Time until) {
    at(time, kCrash, actor, 0);
    if (until >= 0) at(until, kRestart, actor, 0);
}

int32_t World::add_pool(int32_t width, int discipline, int64_t most_waiting, int32_t holds,
                        nb::object policy) {
    pools_.push_back({{width, static_cast<sim::live::Discipline>(discipline), most_waiting, holds},
                      std::move(policy)});
    return static_cast<int32_t>(pools_.size()) - 1;
}

void World::run(Time until, nb::object hooks) {
    until_ = until;
    hooks_ = std::move(hooks);
    growing_.run();
    if (growing_.outcome().beyond >= 0)
        throw std::overflow_error("the run lasts longer than the simulator's clock has days");
}

namespace {

// Forgets an object before it drops it: its end may run Python, and collect garbage that includes
// us.
void drop(nb::object& object) {
    nb::object gone = std::move(object);
}

template <class T>
void drop(T& objects) {
    T gone = std::move(objects);
    objects.clear();
}

}  // namespace

void World::let_go() {
    drop(hooks_);
    drop(fibres_);
    drop(ready_);
    drop(late_done_);
    drop(arrivals_);
    drop(flights_);
    drop(playing_);
    drop(late_);
    for (NamedPool& pool : pools_) drop(pool.policy);
    for (Actor& actor : actors_) {
        drop(actor.handle);
        drop(actor.faults);
        drop(actor.box);
        // A message that a program returned knows its sender, and the sender the world.
        nb::object gone = std::exchange(actor.returned, nb::none());
    }
}

int World::traverse(visitproc visit, void* arg) const {
    auto see = [&](const nb::object& object) {
        return object.is_valid() ? visit(object.ptr(), arg) : 0;
    };
    if (int stop = see(hooks_)) return stop;
    for (const Fibre& fibre : fibres_) {
        if (int stop = see(fibre.generator)) return stop;
        if (int stop = see(fibre.verb)) return stop;
    }
    for (const Actor& actor : actors_) {
        if (int stop = see(actor.handle)) return stop;
        if (int stop = see(actor.faults)) return stop;
    }
    for (const NamedPool& pool : pools_)
        if (int stop = see(pool.policy)) return stop;
    return 0;
}

int32_t World::actor_number(nb::handle who) const {
    int64_t number = -1;
    if (PyUnicode_Check(who.ptr())) {
        auto place = names_.find(nb::cast<std::string>(who));
        if (place != names_.end()) number = place->second;
    } else if (PyLong_Check(who.ptr())) {
        number = PyLong_AsLongLong(who.ptr());
        PyErr_Clear();
    } else if (nb::hasattr(who, "number")) {
        number = nb::cast<int64_t>(who.attr("number"));
        bool ours = number >= 0 && number < std::ssize(actors_) && actors_[number].handle.is(who);
        if (!ours) number = -1;  // an actor of another world
    }
    if (number < 0 || number >= static_cast<int64_t>(actors_.size()))
        throw Refused(nb::cast<std::string>(hooks_.attr("unknown")(who)));
    return static_cast<int32_t>(number);
}

// --- fibres -------------------------------------------------------------------------------------

int32_t World::new_fibre(int32_t actor, int32_t parent, int32_t index) {
    int32_t f;
    if (free_fibres_.empty()) {
        f = static_cast<int32_t>(fibres_.size());
        fibres_.emplace_back();
    } else {
        f = free_fibres_.back();
        free_fibres_.pop_back();
    }
    Fibre& fibre = fibres_[f];
    fibre.actor = actor;
    fibre.parent = parent;
    fibre.index = index;
    fibre.alive = true;
    fibre.waiting = false;
    fibre.since = now();
    fibre.last.clear();
    fibre.daemon = parent >= 0 ? fibres_[parent].daemon : actors_[actor].daemon;
    if (parent >= 0) fibre.last = fibres_[parent].last;
    return f;
}

void World::free_fibre(int32_t f) {
    drop(fibres_[f].generator);
    drop(fibres_[f].verb);
    drop(fibres_[f].results);
    Fibre& fibre = fibres_[f];
    fibre.children.clear();
    fibre.alive = fibre.waiting = false;
    ++fibre.version;
    free_fibres_.push_back(f);
}

void World::wait(int32_t f, nb::handle verb) {
    Fibre& fibre = fibres_[f];
    fibre.verb = nb::borrow(verb);
    fibre.waiting = true;
    fibre.since = now();
}

void World::complete(Token t, nb::object value) {
    if (!current(t)) return;
    Fibre& fibre = fibres_[t.fibre];
    ++fibre.version;
    fibre.waiting = false;
    if (fibre.generator.is_valid())
        ready_.push_back({token(t.fibre), std::move(value)});
    else
        finish(t.fibre, std::move(value));
}

void World::finish(int32_t f, nb::object value) {
    int32_t parent = fibres_[f].parent, index = fibres_[f].index;
    if (parent < 0) {
        if (index != kBeside) actors_[fibres_[f].actor].returned = std::move(value);
        return free_fibre(f);
    }
    Fibre& above = fibres_[parent];
    bool all = verb_of(above.verb).op == kAllOf;
    std::vector<int64_t> last = std::move(fibres_[f].last);
    if (!all) above.last.clear();
    above.last.insert(above.last.end(), last.begin(), last.end());
    above.children[index] = -1;
    free_fibre(f);
    child_finished(parent, index, std::move(value));
}

void World::child_finished(int32_t parent, int32_t index, nb::object value) {
    Fibre& fibre = fibres_[parent];
    if (verb_of(fibre.verb).op == kAllOf) {
        fibre.results[index] = std::move(value);
        if (--fibre.missing > 0) return;
        std::sort(fibre.last.begin(), fibre.last.end());
        fibre.last.erase(std::unique(fibre.last.begin(), fibre.last.end()), fibre.last.end());
        nb::object all = tuple_of(fibre.results);
        return complete(token(parent), std::move(all));
    }
    std::vector<int32_t> children = std::exchange(fibre.children, {});
    for (int32_t child : children)
        if (child >= 0) cancel(child);
    complete(token(parent), nb::make_tuple(index, value));
}

// The fibre ends now, whatever it waits for; work that is on a device or on links goes on alone.
void World::cancel(int32_t f) {
    if (fibres_[f].waiting) withdraw(f);
    nb::object generator = std::move(fibres_[f].generator);
    free_fibre(f);
    if (generator.is_valid() && nb::hasattr(generator, "close")) generator.attr("close")();
}

void World::withdraw(int32_t f) {
    Fibre& fibre = fibres_[f];
    if (!fibre.verb.is_valid()) return;
    Verb& v = verb_of(fibre.verb);
    if (v.op == kReceive) {
        Actor& actor = actors_[fibre.actor];
        std::erase(actor.receivers, f);
        // What it had taken was for others after all.
        for (auto m = fibre.results.rbegin(); m != fibre.results.rend(); ++m)
            actor.box.push_front(std::move(*m));
    } else if (v.op == kUse) {
        sim::live::Pool& pool = pools_[v.number].pool;
        if (pool.fair() ? pool.shared.remove(token(f), now()) : pool.withdraw(token(f))) {
            if (pool.fair()) close_record(fibre.record);
            look_at(v.number);
        } else if (fibre.place >= 0) {
            pool.finish(fibre.place, now());
            close_record(fibre.record);
            look_at(v.number);
        }
    } else if (v.op == kAllOf || v.op == kAnyOf) {
        std::vector<int32_t> children = std::exchange(fibre.children, {});
        for (int32_t child : children)
            if (child >= 0) cancel(child);
    }
}

void World::resume(int32_t f, nb::object value) {
    while (true) {
        PyObject* yielded = nullptr;
        PySendResult result = PyIter_Send(fibres_[f].generator.ptr(), value.ptr(), &yielded);
        if (result == PYGEN_ERROR) raise_from(f);
        nb::object next = nb::steal(yielded);
        if (result == PYGEN_RETURN) return finish(f, std::move(next));
        try {
            if (!perform(f, next, value)) return;
        } catch (nb::python_error& error) {
            hooks_.attr("noted")(error.value(), fibres_[f].actor, program_of(f));
            throw;
        } catch (const std::logic_error& error) {
            hooks_.attr("refuse")(fibres_[f].actor, error.what(), program_of(f));
        }
    }
}

// The exception that is set, with a note of who raised it and when.
void World::raise_from(int32_t f) {
    nb::python_error error;
    hooks_.attr("noted")(error.value(), fibres_[f].actor, nb::none());
    throw error;
}

// The generator that yielded what the fibre does.
nb::object World::program_of(int32_t f) const {
    while (!fibres_[f].generator.is_valid() && fibres_[f].parent >= 0) f = fibres_[f].parent;
    return fibres_[f].generator.is_valid() ? fibres_[f].generator : nb::none();
}

void World::count_verb(int32_t f) {
    ++verbs_;
    Actor& actor = actors_[fibres_[f].actor];
    if (actor.last_time != now()) actor.at_once = 0;
    actor.last_time = now();
    if (++actor.at_once > kMostAtOnce)
        throw Refused(
            "its program does a million things without time passing; let it sleep or wait");
}

void World::begin_child(int32_t parent, int32_t index, nb::object what) {
    int32_t child = new_fibre(fibres_[parent].actor, parent, index);
    fibres_[parent].children[index] = child;
    if (!nb::isinstance<Verb>(what)) {
        if (!nb::hasattr(what, "send"))
            throw std::invalid_argument("all_of and any_of take verbs and generators, not " +
                                        nb::cast<std::string>(nb::repr(what)));
        fibres_[child].generator = std::move(what);
        ready_.push_back({token(child), nb::none()});
        return;
    }
    nb::object value = nb::none();
    if (perform(child, what, value)) {
        // Over at once; it ends with the others, so that no parent ends while it begins its
        // children.
        fibres_[child].verb = what;
        fibres_[child].waiting = true;
        late_done_.push_back({token(child), value});
    }
}

// --- verbs --------------------------------------------------------------------------------------

bool World::perform(int32_t f, nb::handle verb, nb::object& value) {
    if (!nb::isinstance<Verb>(verb))
        throw Refused(nb::cast<std::string>(hooks_.attr("no_verb")(verb)));
    count_verb(f);
    Verb& v = verb_of(verb);
    v.undone.done();
    wait(f, verb);
    bool over = false;
    value = nb::none();
    switch (v.op) {
        case kSleep: at(now() + v.time, kWake, f, fibres_[f].version); break;
        case kCompute: over = compute(f, v); break;
        case kSend: over = send(f, v, value); break;
        case kReceive: over = receive(f, v, value); break;
        case kCollective: over = collective(f, v, value); break;
        case kAccess: over = access(f, v); break;
        case kUse: over = use(f, v, value); break;
        case kAllOf:
        case kAnyOf: over = together(f, v, value); break;
        case kSpawn:
            value = spawn(f, v);
            over = true;
            break;
        case kPlay: over = play(f, v, value); break;
    }
    if (over) fibres_[f].waiting = false;
    return over;
}

// A generator runs beside the program; anything else describes a new actor.
nb::object World::spawn(int32_t f, Verb& v) {
    if (!nb::hasattr(v.a, "send")) return hooks_.attr("spawned")(v.a);
    int32_t beside = new_fibre(fibres_[f].actor, -1, kBeside);
    fibres_[beside].generator = v.a;
    fibres_[beside].last = fibres_[f].last;
    fibres_[beside].daemon = v.flag || fibres_[f].daemon;
    ready_.push_back({token(beside), nb::none()});
    return nb::none();
}

bool World::compute(int32_t f, Verb& v) {
    Actor& actor = actors_[fibres_[f].actor];
    Time time = v.time >= 0
                    ? v.time
                    : nb::cast<Time>(hooks_.attr("work_ps")(actor.device, v.key, v.size, v.b));
    label_ = -1;
    if (actor.faults.is_valid()) {
        nb::tuple changed = nb::cast<nb::tuple>(actor.faults.attr("compute")(time));
        time = nb::cast<Time>(changed[0]);
        label_ = nb::cast<int16_t>(changed[1]);
    }
    fibres_[f].record = note(f, kCompute, v.a, v.size);
    if (fibres_[f].record >= 0) {
        Record& record = records_[fibres_[f].record];
        record.link = static_cast<int64_t>(v.key);
        record.peer = (v.flag ? kOnHost : 0) | (v.time >= 0 ? kTimed : 0);
        record.place = name_number(v.b);
    }
    ++under_way_;
    int32_t row = growing_.compute(actor.device, v.flag, time, v.number);
    rows_[row] = {token(f), -1};
    return false;
}

bool World::send(int32_t f, Verb& v, nb::object& value) {
    int32_t from = fibres_[f].actor, to = actor_number(v.a);
    Token t = v.flag ? token(f) : Token{};
    auto message = [&](nb::object body) {
        Message m;
        m.sender = actors_[from].handle;
        m.from = from;
        m.body = std::move(body);
        m.size = v.size;
        m.number = messages_++;
        m.sent = now();
        return m;
    };
    auto noted = [&](Message m, int32_t whom) {
        m.record = note(f, kSend, v.c, v.size, v.flag);
        if (m.record >= 0) {
            records_[m.record].peer = whom;
            records_[m.record].link = m.number;
        }
        return nb::cast(std::move(m));
    };
    label_ = -1;
    if (!actors_[from].faults.is_valid()) {
        launch(t, from, to, noted(message(v.b), to), v.rank);
        value = nb::none();
        return !v.flag;
    }
    // A fault may lose a message, send another one, or send it later; the first one that is sent is
    // the one that is waited for.
    nb::object sent = actors_[from].faults.attr("send")(to, v.size, v.b);
    for (nb::handle each : sent) {
        nb::tuple one = nb::cast<nb::tuple>(each);
        auto delay = nb::cast<Time>(one[0]);
        int32_t whom = actor_number(one[1]);
        label_ = nb::cast<int16_t>(one[3]);
        nb::object parcel = noted(message(nb::borrow(one[2])), whom);
        if (delay <= 0) {
            launch(t, from, whom, std::move(parcel), v.rank);
        } else {
            late_.push_back({from, whom, std::move(parcel), v.rank, t});
            at(now() + delay, kLate, static_cast<int32_t>(late_.size()) - 1, 0);
        }
        t = Token{};
    }
    if (t.fibre >= 0) return true;  // nothing was sent, and there is nothing to wait for
    return !v.flag;
}

void World::launch(Token t, int32_t from, int32_t to, nb::object message, sim::Rank rank) {
    int32_t device = actors_[from].device;
    auto size = nb::inst_ptr<Message>(message)->size;
    int32_t plan = message_plan(device, actors_[to].device, size);
    int32_t job = growing_.send({plan, rank}, device);
    ++under_way_;
    flights_[job] = {t, std::move(message), from, to, device};
}

// Most pairs know one size alone, for which one look is enough.
int32_t World::message_plan(int32_t from, int32_t to, int64_t size) {
    Pair& pair = pair_of(from, to);
    if (pair.size == size) return pair.plan;
    if (pair.plan < 0) {
        pair.plan = new_plan(pair, from, to, size);
        pair.size = size;
        return pair.plan;
    }
    auto [place, fresh] = plans_.try_emplace({pair.route, size}, -1);
    if (fresh) place->second = new_plan(pair, from, to, size);
    return place->second;
}

int32_t World::new_plan(const Pair& pair, int32_t from, int32_t to, int64_t size) {
    Cost cost = cost_of(pair, from, to, size);
    return growing_.add_message(pair.route, cost.bytes, static_cast<double>(size), cost.delay);
}

World::Pair& World::pair_of(int32_t from, int32_t to) {
    auto [place, fresh] = pairs_.try_emplace({from, to});
    Pair& pair = place->second;
    if (!fresh) return pair;
    way_.clear();
    how_.ways->append(from, to, way_);
    pair.latency = picoseconds(sim::sum_over<int64_t>(way_, how_.latency));
    pair.outermost = how_.ways->outermost(from, to);
    pair.route = growing_.add_route(way_);
    for (int64_t link : way_) pair.bandwidth = std::min(pair.bandwidth, how_.bandwidth[link]);
    return pair;
}

// Messages of one size on ways as wide and as long, out of the same dimension, cost the same.
World::Cost World::cost_of(const Pair& pair, int32_t from, int32_t to, int64_t size) {
    Time latency = how_.timed ? 0 : pair.latency + how_.before;
    if (how_.plain) return {static_cast<double>(size), latency};
    auto [place, fresh] = costs_.try_emplace({size, pair.bandwidth, pair.outermost, pair.latency});
    Cost& cost = place->second;
    if (fresh) {
        nb::tuple asked = nb::cast<nb::tuple>(hooks_.attr("message_cost")(
            from, to, size, pair.bandwidth, pair.outermost, pair.latency));
        cost = {nb::cast<double>(asked[0]), nb::cast<Time>(asked[1])};
    }
    return {cost.bytes, cost.delay + latency};
}

bool World::fits(int32_t f, const nb::object& message) {
    nb::object match = verb_of(fibres_[f].verb).a;
    if (match.is_none()) return true;
    try {
        return is_true(match(message));
    } catch (nb::python_error& error) {
        hooks_.attr("noted")(error.value(), fibres_[f].actor, nb::none());
        throw;
    }
}

// Whether the message is one that the fibre waits for; it is then taken.
bool World::take(int32_t f, nb::object& message) {
    Fibre& fibre = fibres_[f];
    if (!fits(f, message)) return false;
    Message& m = *nb::inst_ptr<Message>(message);
    if (records_kept_) {
        if (fibre.results.empty()) fibre.before = fibre.last;
        std::vector<int64_t> others = std::exchange(fibre.last, fibre.before);
        label_ = -1;
        int64_t r = note(f, kReceive, nb::none(), m.size);
        Record& record = records_[r];
        record.start = std::min(fibre.since, now());
        record.end = now();
        record.peer = m.from;
        record.link = m.number;
        record.received = true;
        if (m.record >= 0) records_[m.record].received = true;
        if (!fibre.results.empty())
            fibre.last.insert(fibre.last.end(), others.begin(), others.end());
    }
    fibre.results.push_back(std::move(message));
    return true;
}

nb::object World::taken(int32_t f) {
    return tuple_of(fibres_[f].results);
}

bool World::receive(int32_t f, Verb& v, nb::object& value) {
    fibres_[f].results.clear();
    int32_t a = fibres_[f].actor;
    auto& box = actors_[a].box;
    for (size_t i = 0; i < box.size() && std::ssize(fibres_[f].results) < v.size;) {
        if (take(f, box[i]))
            box.erase(box.begin() + static_cast<std::ptrdiff_t>(i));
        else
            ++i;
    }
    if (std::ssize(fibres_[f].results) >= v.size || v.time == 0) {
        value = taken(f);
        return true;
    }
    actors_[a].receivers.push_back(f);
    if (v.time > 0) at(now() + v.time, kWake, f, fibres_[f].version);
    return false;
}

bool World::collective(int32_t f, Verb& v, nb::object& value) {
    int32_t actor = fibres_[f].actor;
    Group& group = *nb::inst_ptr<Group>(v.b);
    auto place = std::find(group.members.begin(), group.members.end(), actor);
    if (place == group.members.end())
        throw std::invalid_argument("an actor calls a collective of a group that it is not in");
    if (group.number < 0) group.number = groups_++;
    int64_t sequence = group.called[place - group.members.begin()]++;
    label_ = -1;
    int64_t record = fibres_[f].record = note(f, kCollective, v.a, v.size);
    if (record >= 0) {
        records_[record].peer = group.number;
        records_[record].link = sequence;
        records_[record].place = v.number;
    }
    value = nb::none();
    if (group.members.size() == 1) return true;
    Group::Open& open = call_of(group, sequence, v, actor);
    int32_t instance = open.instance;
    if (--open.missing == 0)
        std::erase_if(group.open, [&](const auto& each) { return each.sequence == sequence; });
    ++under_way_;
    int32_t row = growing_.join(instance, actors_[actor].device, sim::kComm);
    rows_[row] = {token(f), instance};
    return false;
}

Group::Open& World::call_of(Group& group, int64_t sequence, Verb& v, int32_t actor) {
    for (Group::Open& open : group.open) {
        if (open.sequence != sequence) continue;
        if (open.size == v.size && open.root == v.number && open.kind.equal(v.a)) return open;
        throw std::invalid_argument(nb::cast<std::string>(
            hooks_.attr("disagree")(open.first, open.kind, open.size, actor, v.a, v.size)));
    }
    nb::list devices;
    for (int32_t member : group.members) devices.append(actors_[member].device);
    nb::tuple plan = nb::cast<nb::tuple>(
        hooks_.attr("plan_collective")(v.a, v.size, nb::tuple(devices), v.number));
    auto members = static_cast<int32_t>(group.members.size());
    sim::live::Transfer transfer{nb::cast<int32_t>(plan[0]), v.rank};
    int32_t instance = growing_.open(transfer, members, nb::cast<Time>(plan[1]), -1, 0);
    instance_left_[instance] = members;
    group.open.push_back({sequence, instance, members, v.a, v.size, v.number, actor});
    return group.open.back();
}

bool World::access(int32_t f, Verb& v) {
    int32_t actor = fibres_[f].actor, device = actors_[actor].device;
    nb::tuple plan = nb::cast<nb::tuple>(hooks_.attr("plan_access")(v.a, v.size, v.flag, device));
    label_ = -1;
    fibres_[f].record = note(f, kAccess, v.a, v.size);
    if (fibres_[f].record >= 0) records_[fibres_[f].record].place = v.flag;
    ++under_way_;
    int32_t instance = growing_.open({nb::cast<int32_t>(plan[0]), v.rank}, 1, 0,
                                     nb::cast<int32_t>(plan[1]), device);
    instance_left_[instance] = 1;
    rows_[growing_.join(instance, device, sim::kStorage)] = {token(f), instance};
    return false;
}

bool World::use(int32_t f, Verb& v, nb::object& value) {
    if (v.number >= std::ssize(pools_)) throw Refused("it uses a pool of another world");
    NamedPool& named = pools_[v.number];
    if (named.pool.full()) {
        ++named.pool.use.refused;
        value = nb::none();
        return true;
    }
    Task task;
    task.token = token(f);
    task.work = std::max<Time>(v.time, 0);
    task.key = v.key;
    task.change = v.more;
    task.since = now();
    if (!v.b.is_none()) {
        if (!items_.contains(v.b)) items_[v.b] = nb::int_(items_.size());
        task.item = nb::cast<int32_t>(items_[v.b]);
    }
    fibres_[f].place = -1;
    if (named.pool.fair()) {
        named.pool.note_start(task, now());
        label_ = -1;
        fibres_[f].record = note(f, kUse, nb::none(), 0);
        if (fibres_[f].record >= 0) records_[fibres_[f].record].peer = v.number;
        task.number = named.pool.use.started;
        named.pool.shared.add(std::move(task), now());
    } else {
        named.pool.add(std::move(task));
    }
    look_at(v.number);
    return false;
}

bool World::together(int32_t f, Verb& v, nb::object& value) {
    auto count = static_cast<int32_t>(PyTuple_GET_SIZE(v.a.ptr()));
    if (count == 0) {
        value = nb::make_tuple();
        return true;
    }
    fibres_[f].missing = count;
    fibres_[f].results.assign(count, nb::none());
    fibres_[f].children.assign(count, -1);
    std::vector<int64_t> last = fibres_[f].last;
    for (int32_t i = 0; i < count; ++i)
        begin_child(f, i, nb::borrow(PyTuple_GET_ITEM(v.a.ptr(), i)));
    if (v.op == kAllOf) fibres_[f].last.clear();
    return false;
}

bool World::play(int32_t f, Verb& v, nb::object& value) {
    Playing& playing = *nb::inst_ptr<Playing>(v.a);
    int32_t rank = v.number;
    const sim::live::Score& score = growing_.score_at(playing.score);
    if (rank >= std::ssize(score.devices))
        throw Refused("it plays rank " + std::to_string(rank) + " of traces with " +
                      std::to_string(score.devices.size()));
    label_ = -1;
    fibres_[f].record = note(f, kPlay, v.b, 0);
    if (playing.copy < 0) {
        playing.copy = growing_.copy(playing.score);
        playing.left.assign(score.devices.size(), 0);
        for (int32_t d : score.rows.device) ++playing.left[d];
        playing.rows_left = score.rows.rows();
        playing.waiting.assign(score.devices.size(), {});
        playing.whole = rank < 0;
        playing_[playing.copy] = v.a;
        under_way_ += playing.rows_left;
        playing.actors.assign(score.devices.size(), -1);
    } else if (playing.whole || rank < 0 || playing.waiting[rank].fibre >= 0) {
        throw std::invalid_argument("these traces are being played already; play them anew");
    }
    playing.waiting[std::max(rank, 0)] = token(f);
    playing.actors[std::max(rank, 0)] = fibres_[f].actor;
    growing_.release(playing.copy, rank);
    value = nb::none();
    return rank < 0 ? playing.rows_left == 0 : playing.left[rank] == 0;
}

// --- what ends ----------------------------------------------------------------------------------

void World::row_ended(int32_t row) {
    --under_way_;
    if (int32_t c = growing_.copy_of(row); c >= 0) {
        nb::object kept = playing_.at(c);
        Playing& playing = *nb::inst_ptr<Playing>(kept);
        const sim::live::Score& score = growing_.score_at(playing.score);
        int32_t first = growing_.copy_at(c).first_row, rank = score.rows.device[row - first];
        bool rank_over = --playing.left[rank] == 0, over = --playing.rows_left == 0;
        Token waiting = playing.whole ? playing.waiting[0] : playing.waiting[rank];
        if (over) {
            if (records_kept_ && !playing.whole) keep_times(playing, first, row);
            playing.copy = -1;
            playing_.erase(c);
            finished_copies_.push_back(c);
        }
        if (playing.whole ? over : rank_over) {
            if (current(waiting)) close_record(fibres_[waiting.fibre].record);
            complete(waiting, nb::none());
        }
        return;
    }
    auto place = rows_.find(row);
    RowOwner owner = place->second;
    rows_.erase(place);
    growing_.recycle_row(row);
    if (owner.instance >= 0 && --instance_left_[owner.instance] == 0) {
        instance_left_.erase(owner.instance);
        growing_.recycle_instance(owner.instance);
    }
    if (current(owner.token)) close_record(fibres_[owner.token.fibre].record);
    complete(owner.token, nb::none());
}

// The times of all rows of a playing, the last of which ends now.
void World::keep_times(const Playing& playing, int32_t first, int32_t last) {
    const sim::Outcome& out = growing_.outcome();
    int32_t rows = growing_.score_at(playing.score).rows.rows();
    for (int32_t v = first; v < first + rows; ++v) {
        play_starts_.push_back(out.start[v]);
        play_ends_.push_back(v == last ? now() : out.end[v]);
    }
    play_scores_.push_back(playing.score);
    play_offsets_.push_back(std::ssize(play_starts_));
    play_actors_.insert(play_actors_.end(), playing.actors.begin(), playing.actors.end());
}

void World::job_ended(int32_t job) {
    --under_way_;
    auto place = flights_.find(job);
    arrivals_.push_back(std::move(place->second));
    flights_.erase(place);
    growing_.recycle_job(job, arrivals_.back().device);
}

bool World::deliver_arrivals() {
    if (arrivals_.empty()) return false;
    std::vector<Flight> arrived = std::exchange(arrivals_, {});
    auto number = [](const Flight& flight) {
        return std::pair(flight.from, nb::inst_ptr<Message>(flight.message)->number);
    };
    std::sort(arrived.begin(), arrived.end(),
              [&](const Flight& a, const Flight& b) { return number(a) < number(b); });
    for (Flight& flight : arrived) {
        Message& m = *nb::inst_ptr<Message>(flight.message);
        m.arrived = now();
        close_record(m.record);
        complete(flight.token, nb::none());
        deliver(flight.to, std::move(flight.message));
    }
    return true;
}

void World::deliver(int32_t a, nb::object message) {
    if (actors_[a].down) return;
    if (actors_[a].faults.is_valid() && !is_true(actors_[a].faults.attr("receive")(message)))
        return;
    for (int32_t f : std::vector<int32_t>(actors_[a].receivers)) {
        if (!take(f, message)) continue;
        Fibre& fibre = fibres_[f];
        if (std::ssize(fibre.results) >= verb_of(fibre.verb).size) {
            std::erase(actors_[a].receivers, f);
            complete(token(f), taken(f));
        }
        return;
    }
    actors_[a].box.push_back(std::move(message));
}

// --- time ---------------------------------------------------------------------------------------

void World::at(Time time, TimerKind kind, int32_t id, uint32_t version, int32_t place) {
    if (time > sim::kHorizon)
        throw std::overflow_error("a wait ends after the last day of the simulator's clock");
    timers_.push({time, timer_numbers_++, kind, id, place, version});
}

Time World::next_time() {
    if (!ready_.empty() || !changed_pools_.empty()) return now();
    // What nobody waits for any more must not keep the run going.
    while (!timers_.empty() && is_stale(timers_.top())) timers_.pop();
    return timers_.empty() ? sim::kNever : timers_.top().time;
}

bool World::is_stale(const Timer& timer) {
    switch (timer.kind) {
        case kWake: return !current({timer.id, timer.version});
        case kPlaceEnd: return pools_[timer.id].pool.places[timer.place].version != timer.version;
        case kShareEnd: return pools_[timer.id].pool.shared.next_time() == sim::kNever;
        default: return false;
    }
}

bool World::fire_timers(Time now) {
    bool any = false;
    while (!timers_.empty() && timers_.top().time <= now) {
        Timer timer = timers_.top();
        timers_.pop();
        fire(timer);
        any = true;
    }
    return any;
}

void World::fire(const Timer& timer) {
    switch (timer.kind) {
        case kWake: {
            Token t{timer.id, timer.version};
            if (!current(t)) return;
            Fibre& fibre = fibres_[timer.id];
            nb::object value = nb::none();
            if (fibre.verb.is_valid() && fibre.waiting) {
                Verb& v = verb_of(fibre.verb);
                if (v.op == kReceive) {
                    std::erase(actors_[fibre.actor].receivers, timer.id);
                    value = taken(timer.id);
                } else {
                    value = v.a;
                }
            }
            return complete(t, std::move(value));
        }
        case kPlaceEnd: {
            sim::live::Place& place = pools_[timer.id].pool.places[timer.place];
            if (place.version != timer.version) return;
            Task task = place.task;
            pools_[timer.id].pool.finish(timer.place, now());
            look_at(timer.id);
            return end_task(timer.id, task, timer.place, place.began);
        }
        case kShareEnd: return look_at(timer.id);
        case kCrash: return crash(timer.id);
        case kRestart:
            actors_[timer.id].down = false;
            begin(timer.id, hooks_.attr("restarted")(timer.id), now());
            return;
        case kLate: {
            Late& late = late_[timer.id];
            return launch(late.token, late.from, late.to, std::move(late.message), late.rank);
        }
    }
}

// All that the actor was doing is lost, and what comes for it until it is back.
void World::crash(int32_t actor) {
    actors_[actor].down = true;
    for (size_t f = 0; f < fibres_.size(); ++f)
        if (fibres_[f].alive && fibres_[f].actor == actor && fibres_[f].parent < 0)
            cancel(static_cast<int32_t>(f));
    actors_[actor].box.clear();
    actors_[actor].receivers.clear();
}

bool World::react(Time now) {
    for (int32_t copy : std::exchange(finished_copies_, {})) growing_.recycle_copy(copy);
    bool any = deliver_arrivals();
    any |= fire_timers(now);
    if (ready_.empty()) return any || dispatch_pools();
    std::vector<Ready> batch = std::exchange(ready_, {});
    std::stable_sort(batch.begin(), batch.end(), [&](const Ready& a, const Ready& b) {
        return fibres_[a.token.fibre].actor < fibres_[b.token.fibre].actor;
    });
    for (Ready& each : batch) {
        if (!current(each.token)) continue;
        resume(each.token.fibre, std::move(each.value));
        for (Ready& done : std::exchange(late_done_, {}))
            complete(done.token, std::move(done.value));
    }
    if (PyErr_CheckSignals() != 0) nb::raise_python_error();
    return true;
}

// --- pools --------------------------------------------------------------------------------------

void World::look_at(int32_t pool) {
    if (!pools_[pool].changed) changed_pools_.push_back(pool);
    pools_[pool].changed = true;
}

bool World::dispatch_pools() {
    bool any = false;
    for (int32_t pool : std::exchange(changed_pools_, {})) {
        pools_[pool].changed = false;
        any |= dispatch(pool);
    }
    return any;
}

bool World::dispatch(int32_t p) {
    sim::live::Pool& pool = pools_[p].pool;
    if (pool.fair()) {
        bool any = false;
        for (Task task; pool.shared.take(now(), task); any = true) {
            ++pool.use.ended;
            pool.use.busy += task.work;
            end_task(p, task, -1, task.since);
        }
        if (Time next = pool.shared.next_time(); next != sim::kNever) at(next, kShareEnd, p, 0);
        return any;
    }
    if (!pools_[p].policy.is_none()) return dispatch_by_policy(p);
    bool any = false;
    while (!pool.waiting.empty()) {
        auto first = pool.waiting.begin();
        int32_t place = pool.place_for(first->second.item);
        if (place < 0) break;
        Task task = first->second;
        pool.waiting.erase(first);
        start_task(p, std::move(task), place);
        any = true;
    }
    return any;
}

// Asks the policy for (task, place), as numbers in the lists, until it gives None.
bool World::dispatch_by_policy(int32_t p) {
    bool any = false;
    while (true) {
        sim::live::Pool& pool = pools_[p].pool;
        if (pool.waiting.empty() || pool.free_places() == 0) return any;
        nb::list tasks, places;
        for (const auto& [key, task] : pool.waiting) {
            const Fibre& fibre = fibres_[task.token.fibre];
            tasks.append(nb::make_tuple(actors_[fibre.actor].handle, verb_of(fibre.verb).c,
                                        verb_of(fibre.verb).b, task.work, task.key, task.since));
        }
        for (size_t i = 0; i < pool.places.size(); ++i)
            if (!pool.places[i].busy) places.append(i);
        nb::object chosen = hooks_.attr("pick")(p, tasks, places);
        if (chosen.is_none()) return any;
        nb::tuple both = nb::cast<nb::tuple>(chosen);
        auto first = std::next(pool.waiting.begin(), nb::cast<int64_t>(both[0]));
        Task task = first->second;
        pool.waiting.erase(first);
        start_task(p, std::move(task), nb::cast<int32_t>(both[1]));
        any = true;
    }
}

void World::start_task(int32_t p, Task task, int32_t place) {
    int32_t f = task.token.fibre;
    Verb& v = verb_of(fibres_[f].verb);
    if (!v.a.is_none())  // what it takes depends on the place
        task.work = nb::cast<Time>(hooks_.attr("late_work")(p, place, v.a, v.c));
    label_ = -1;
    fibres_[f].record = note(f, kUse, nb::none(), 0);
    if (fibres_[f].record >= 0) {
        records_[fibres_[f].record].peer = p;
        records_[fibres_[f].record].place = place;
        records_[fibres_[f].record].link = task.since;
    }
    fibres_[f].place = place;
    sim::live::Pool& pool = pools_[p].pool;
    Time end = pool.start(std::move(task), place, now());
    at(end, kPlaceEnd, p, pool.places[place].version, place);
}

void World::end_task(int32_t, const Task& task, int32_t place, Time) {
    if (current(task.token)) close_record(fibres_[task.token.fibre].record);
    complete(task.token, nb::int_(place));
}

// --- records ------------------------------------------------------------------------------------

int32_t World::name_number(nb::handle name) {
    if (!name.is_valid() || name.is_none()) return -1;
    if (name_numbers_.contains(name)) return nb::cast<int32_t>(name_numbers_[name]);
    auto number = static_cast<int32_t>(names_in_order_.size());
    name_numbers_[name] = nb::int_(number);
    names_in_order_.append(name);
    return number;
}

int64_t World::note(int32_t f, Op op, nb::handle name, int64_t size, bool waited_for) {
    if (!records_kept_) return -1;
    Fibre& fibre = fibres_[f];
    auto number = std::ssize(records_);
    records_.push_back(
        {fibre.actor, name_number(name), -1, -1, op, false, label_, now(), -1, size, -1});
    deps_.insert(deps_.end(), fibre.last.begin(), fibre.last.end());
    dep_offsets_.push_back(std::ssize(deps_));
    if (waited_for) fibre.last.assign(1, number);
    return number;
}

nb::dict World::records() {
    size_t n = records_.size();
    std::vector<int32_t> actor(n), name(n), peer(n), place(n);
    std::vector<int8_t> op(n), received(n);
    std::vector<int16_t> label(n);
    std::vector<int64_t> start(n), end(n), size(n), link(n);
    for (size_t i = 0; i < n; ++i) {
        const Record& r = records_[i];
        actor[i] = r.actor, name[i] = r.name, peer[i] = r.peer, place[i] = r.place;
        op[i] = static_cast<int8_t>(r.op), received[i] = r.received, label[i] = r.label;
        start[i] = r.start, end[i] = r.end, size[i] = r.size, link[i] = r.link;
    }
    nb::dict out;
    out["actor"] = to_numpy(std::move(actor)), out["name"] = to_numpy(std::move(name));
    out["peer"] = to_numpy(std::move(peer)), out["place"] = to_numpy(std::move(place));
    out["op"] = to_numpy(std::move(op)), out["received"] = to_numpy(std::move(received));
    out["label"] = to_numpy(std::move(label));
    out["start"] = to_numpy(std::move(start)), out["end"] = to_numpy(std::move(end));
    out["size"] = to_numpy(std::move(size)), out["link"] = to_numpy(std::move(link));
    out["dep_offsets"] = to_numpy(std::vector<int64_t>(dep_offsets_));
    out["deps"] = to_numpy(std::vector<int64_t>(deps_));
    out["names"] = names_in_order_;
    return out;
}

nb::dict World::links() {
    const sim::Plans& p = growing_.plans();
    const sim::Topology& t = growing_.topology();
    nb::dict out;
    out["plan_steps"] = to_numpy(std::vector<int64_t>(p.plan_steps));
    out["repeat"] = to_numpy(std::vector<int64_t>(p.repeat));
    out["step_transfers"] = to_numpy(std::vector<int64_t>(p.step_transfers));
    out["route"] = to_numpy(std::vector<int32_t>(p.route));
    out["payload"] = to_numpy(std::vector<double>(growing_.payload()));
    out["route_offsets"] = to_numpy(std::vector<int64_t>(t.route_offsets));
    out["route_links"] = to_numpy(std::vector<int32_t>(t.route_links));
    out["runs"] = to_numpy(std::vector<int64_t>(growing_.outcome().job_runs));
    out["full_rate"] = to_numpy(std::vector<double>(growing_.meter().full_rate));
    out["full_since"] = to_numpy(std::vector<int64_t>(growing_.meter().full_since));
    out["events"] = growing_.outcome().events;
    return out;
}

nb::list World::stuck() const {
    nb::list out;
    for (size_t f = 0; f < fibres_.size(); ++f) {
        const Fibre& fibre = fibres_[f];
        if (!fibre.alive || !fibre.waiting || fibre.daemon) continue;
        const Verb& v = verb_of(fibre.verb);
        if (v.op == kAllOf || v.op == kAnyOf) continue;  // its parts are listed
        nb::list missing, box;
        if (v.op == kCollective) {
            const Group& group = *nb::inst_ptr<Group>(v.b);
            int64_t most = *std::max_element(group.called.begin(), group.called.end());
            for (size_t i = 0; i < group.members.size(); ++i)
                if (group.called[i] < most) missing.append(group.members[i]);
        }
        for (const nb::object& message : actors_[fibre.actor].box) box.append(message);
        out.append(nb::make_tuple(fibre.actor, static_cast<int>(v.op), fibre.since, v.size,
                                  fibre.results.size(), v.number, v.a, missing, box,
                                  program_of(static_cast<int32_t>(f))));
    }
    return out;
}

nb::list World::unread() const {
    std::vector<bool> acts(actors_.size());
    for (const Fibre& fibre : fibres_)
        if (fibre.alive) acts[fibre.actor] = true;
    nb::list out;
    for (size_t a = 0; a < actors_.size(); ++a)
        if (!acts[a] && !actors_[a].box.empty())
            out.append(nb::make_tuple(a, actors_[a].box.size()));
    return out;
}

nb::list World::pools() const {
    nb::list out;
    for (const NamedPool& named : pools_) {
        const sim::live::PoolUse& u = named.pool.use;
        Time busy = u.busy;
        for (const sim::live::Place& place : named.pool.places)
            if (place.busy) busy += end() - place.began;
        out.append(nb::make_tuple(u.started, u.ended, u.refused, u.changes, u.waited,
                                  u.longest_wait, busy, named.pool.waiting.size()));
    }
    return out;
}

nb::list World::resident(int32_t pool, int32_t place) const {
    nb::list keys = items_.keys(), out;
    for (int32_t item : pools_.at(pool).pool.places.at(place).items) out.append(keys[item]);
    return out;
}

nb::list World::plays() {
    nb::list out;
    out.append(to_numpy(std::vector<int64_t>(play_scores_)));
    out.append(to_numpy(std::vector<int64_t>(play_actors_)));
    out.append(to_numpy(std::vector<int64_t>(play_offsets_)));
    out.append(to_numpy(std::vector<Time>(play_starts_)));
    out.append(to_numpy(std::vector<Time>(play_ends_)));
    return out;
}

}  // namespace chakra::bind::live
