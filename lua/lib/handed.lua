-- handed: what a claim answers, and what of it is remembered for a repeat.

local function hand_out(id, packed, apart)
  local n = #reply
  reply[n + 1], reply[n + 2], reply[n + 3] = id, packed, apart ~= '' and { apart } or nil
  handed[#handed + 1] = id
  bytes = bytes + #packed + #apart
end

local function remember(closed)
  local answer = { n = number, ids = table.concat(handed, '\n'), closed = closed or nil, chance = chance }
  call('SET', Q .. 'claim:' .. inc, cmsgpack.pack(answer), 'PX', REMEMBERED_MS)
end
