#!lua name=tailrace_bench_undo
-- The protocol that was not chosen, for `bench_epoch_protocol.py`: state is written at the commit,
-- and T:undo keeps what takes it back. Only what the benchmark needs: HSET, HDEL, ZADD, ZREM.
-- KEYS  T:meta, T:undo     ARGV  epoch, item ...

local function prefix_of(keys) return string.sub(keys[1], 1, -5) end

-- The commands that undo one command, from what is there before it.
local function inverse(prefix, command)
  local name, key = command[1], prefix .. command[2]
  local put, gone = { name = nil }, {}
  local is_hash = name == 'HSET' or name == 'HDEL'
  local step = (name == 'HSET' or name == 'ZADD') and 2 or 1
  local members = {}
  for at = name == 'ZADD' and 4 or 3, #command, step do members[#members + 1] = command[at] end
  local held = redis.call(is_hash and 'HMGET' or 'ZMSCORE', key, unpack(members))
  for at, member in ipairs(members) do
    if not held[at] then
      gone[#gone + 1] = member
    elseif is_hash then
      put[#put + 1], put[#put + 2] = member, held[at]
    else
      put[#put + 1], put[#put + 2] = held[at], member
    end
  end
  local undo = {}
  if #put > 0 then undo[1] = { is_hash and 'HSET' or 'ZADD', command[2], unpack(put) } end
  if #gone > 0 then undo[#undo + 1] = { is_hash and 'HDEL' or 'ZREM', command[2], unpack(gone) } end
  return undo
end

local function carry_out(prefix, commands)
  for _, command in ipairs(commands) do
    redis.call(command[1], prefix .. command[2], unpack(command, 3))
  end
end

local function begin(keys, args)
  local epoch, meta = tonumber(args[1]), redis.call('HGET', keys[1], 'epoch')
  if tonumber(meta or '0') == epoch then
    for _, chunk in ipairs(redis.call('LRANGE', keys[2], 0, -1)) do
      carry_out(prefix_of(keys), cmsgpack.unpack(chunk))
    end
    redis.call('HSET', keys[1], 'epoch', epoch - 1)
  end
  return redis.status_reply('OK')
end

local function commit(keys, args)
  local epoch, prefix = tonumber(args[1]), prefix_of(keys)
  if tonumber(redis.call('HGET', keys[1], 'epoch') or '0') >= epoch then
    return redis.error_reply('FENCED')
  end
  local decoded, undo = {}, {}
  local at = 2
  while args[at] do
    local commands = cmsgpack.unpack(args[at])
    at = at + 1
    for _, command in ipairs(commands) do
      for place = 4, #command, 2 do
        -- A long value follows its chunk.
        if command[place] == false then command[place], at = args[at], at + 1 end
      end
      decoded[#decoded + 1] = command
      -- Taken back in reverse order; the benchmark's commands touch different members.
      for _, each in ipairs(inverse(prefix, command)) do table.insert(undo, 1, each) end
    end
  end
  redis.call('UNLINK', keys[2])
  for _, each in ipairs(undo) do redis.call('RPUSH', keys[2], cmsgpack.pack({ each })) end
  carry_out(prefix, decoded)
  redis.call('HSET', keys[1], 'epoch', epoch)
  return redis.status_reply('OK')
end

redis.register_function('bench_undo_begin', begin)
redis.register_function('bench_undo_commit', commit)
