-- Reads all keys of a queue: of each its name behind the prefix, its type, and what it holds, flat.
--
-- ARGV: prefix, and 1 to read `events` too (which grows)
local Q = ARGV[1]
local READ = {
  string = function(key) return { redis.call('GET', key) } end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
  hash = function(key) return redis.call('HGETALL', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  stream = function(key)
    local flat = {}
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
      flat[#flat + 1] = entry[1]
      flat[#flat + 1] = entry[2][#entry[2]]
    end
    return flat
  end,
}
local found = {}
for _, key in ipairs(redis.call('KEYS', Q .. '*')) do
  local suffix = string.sub(key, #Q + 1)
  if suffix ~= 'events' or ARGV[2] == '1' then
    local kind = redis.call('TYPE', key).ok
    local row = READ[kind](key)
    table.insert(row, 1, kind)
    table.insert(row, 1, suffix)
    found[#found + 1] = row
  end
end
return found
