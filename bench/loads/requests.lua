-- The requests that loads are made of. wrk runs a load once in each of its threads; every thread draws its own
-- numbers, the same ones for every server of a round.
--
-- A load says in `prepare` what makes its requests. After the URL wrk is given the seed, the number of animals and
-- a file of shuffled cursors, one a line.

local CURSOR = 16 -- characters

local threads = 0
local animals, cursors, cursor

function setup(thread)
  thread:set("thread_number", threads)
  threads = threads + 1
end

function init(arguments)
  local seed = tonumber(arguments[1])
  math.randomseed(seed * 1000 + thread_number)
  animals = tonumber(arguments[2])
  local file = assert(io.open(arguments[3], "rb"))
  cursors = file:read("*a")
  file:close()
  local count = #cursors / (CURSOR + 1)
  -- Half of them apart, where two threads run.
  cursor = math.floor(seed * 7919 + thread_number * count / 2) % count
  request = prepare()
end

-- A request whose text has `part()` in the place of "@" or of several: as many as the part is long, in a body.
local function with(part, text)
  local first, last = text:find("@+")
  local head, tail = text:sub(1, first - 1), text:sub(last + 1)
  return function()
    return head .. part() .. tail
  end
end

local function random_id()
  return math.random(1, animals)
end

-- Each cursor once before any comes again.
local function next_cursor()
  local start = cursor * (CURSOR + 1)
  cursor = (cursor + 1) % (#cursors / (CURSOR + 1))
  return cursors:sub(start + 1, start + CURSOR)
end

local requests = {}

function requests.list(query)
  local text = wrk.format("GET", "/v1/pets?" .. query)
  return function()
    return text
  end
end

function requests.list_after_cursor()
  return with(next_cursor, wrk.format("GET", "/v1/pets?limit=20&cursor=@"))
end

-- The one in the middle.
function requests.get_same()
  local text = wrk.format("GET", "/v1/pets/" .. math.floor(animals / 2))
  return function()
    return text
  end
end

function requests.get_random()
  return with(random_id, wrk.format("GET", "/v1/pets/@"))
end

function requests.create()
  wrk.headers["Content-Type"] = "application/json"
  local text = wrk.format("POST", "/v1/pets", nil, '{"name":"Animal @@@@@@@","categoryId":7}')
  wrk.headers["Content-Type"] = nil
  return with(function()
    return math.random(1000000, 9999999)
  end, text)
end

return requests
