-- New animals, each with a name of its own.
local requests = require("requests")

function prepare()
  return requests.create()
end
