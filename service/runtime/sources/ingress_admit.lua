-- Cut the entries of an ingress stream into runs of whole entries, without moving their data.
-- KEYS[1]  the stream
-- ARGV     id to start behind, last id ("+": no end), rows at most (-1: all), rows a run
-- Reply    flat list of last id and row count for each run, oldest first; empty if nothing is new
-- One call, because the row counts stand inside the entries, and those are large.
local from, last = '(' .. ARGV[1], ARGV[2]
local rows_max, run_rows = tonumber(ARGV[3]), tonumber(ARGV[4])
local reply, rows, total = {}, 0, 0
while true do
  local entries = redis.call('XRANGE', KEYS[1], from, last, 'COUNT', 64)
  for _, entry in ipairs(entries) do
    local count = 0
    for at = 1, #entry[2], 2 do
      if entry[2][at] == 'n' then count = tonumber(entry[2][at + 1]) end
    end
    if rows_max >= 0 and total > 0 and total + count > rows_max then
      return reply
    end
    if #reply == 0 or rows >= run_rows then
      reply[#reply + 1], reply[#reply + 2], rows = entry[1], 0, 0
    end
    rows, total = rows + count, total + count
    reply[#reply - 1], reply[#reply] = entry[1], rows
    from = '(' .. entry[1]
  end
  if #entries < 64 then return reply end
end
