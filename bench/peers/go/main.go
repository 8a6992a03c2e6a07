// The contract on Go's net/http and pgx, one prepared statement a request.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"log"
	"math"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

const (
	bodyLimit  = 16 * 1024
	trustedFor = 4 * time.Second
	realm      = `Bearer realm="animal-store"`
	byID       = "select id, name, category_id, status from pets where id >= $1 order by id limit $2"
	byStatus   = "select id, name, category_id, status from pets where status = $1 and id >= $2 order by id limit $3"
	oneByID    = "select id, name, category_id, status from pets where id = $1"
	insert     = "insert into pets (name, category_id, status) values ($1, $2, $3) returning id"
	keyByHash  = "select id, expires_at from api_keys where hash = $1 and revoked_at is null"
)

var (
	limitForm  = regexp.MustCompile(`^(?:[1-9][0-9]?|100)$`)
	bearerForm = regexp.MustCompile(`(?i)^bearer +([A-Za-z0-9._~+/-]+=*)$`)
	idForm     = regexp.MustCompile(`^(?:0|-?[1-9][0-9]{0,18})$`)
	statuses   = map[string]bool{"available": true, "pending": true, "sold": true}
)

type pet struct {
	id, categoryID int64
	name, status   string
}

// fault is an Error body and the headers that go with it.
type fault struct {
	status        int
	code, message string
	challenge     string
}

func (f *fault) Error() string { return f.message }

func invalid(message string) error {
	return &fault{status: 400, code: "invalid_request", message: message}
}

// call is what one request's line in the log says.
type call struct {
	route, key string
	status     int
}

type server struct {
	database *pgxpool.Pool
	keys     keyCache
	lines    lines
}

func main() {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = 10
	database, err := pgxpool.ConnectConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	s := &server{database: database}
	s.keys.remembered = map[[32]byte]rememberedKey{}
	s.lines.out = bufio.NewWriterSize(os.Stdout, 15*1024)
	go s.lines.flushEverySecond()
	listener := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: s}
	stopping := make(chan os.Signal, 1)
	signal.Notify(stopping, syscall.SIGTERM)
	go func() {
		<-stopping
		listener.Close()
	}()
	if err := listener.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	receivedAt := time.Now()
	c := &call{}
	if err := s.handle(w, r, c); err != nil {
		var known *fault
		if !errors.As(err, &known) {
			if r.Context().Err() == nil {
				log.Print(err)
			}
			known = &fault{status: 500, code: "internal_error", message: "The service failed; the fault is ours."}
		}
		if known.challenge != "" {
			w.Header().Set("Www-Authenticate", known.challenge)
		}
		body := append([]byte(`{"code":"`), known.code...)
		body = appendString(append(body, `","message":`...), known.message)
		body = strconv.AppendInt(append(body, `,"status":`...), int64(known.status), 10)
		c.send(w, known.status, append(body, '}'))
	}
	s.lines.write(r.Method, c, time.Since(receivedAt))
}

func (s *server) handle(w http.ResponseWriter, r *http.Request, c *call) error {
	path := r.URL.Path
	switch {
	case path == "/v1/pets" && (r.Method == "GET" || r.Method == "POST"):
		c.route = "/v1/pets"
	case strings.HasPrefix(path, "/v1/pets/") && r.Method == "GET":
		c.route = "/v1/pets/:petId"
	default:
		return &fault{status: 404, code: "route_not_found", message: "No such path."}
	}
	key, err := s.authenticate(r)
	if err != nil {
		return err
	}
	c.key = key
	switch {
	case c.route == "/v1/pets/:petId":
		return s.get(w, r, c, path[len("/v1/pets/"):])
	case r.Method == "GET":
		return s.list(w, r, c)
	default:
		return s.create(w, r, c)
	}
}

func (s *server) list(w http.ResponseWriter, r *http.Request, c *call) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("the query is malformed")
	}
	limit, start := 20, int64(math.MinInt64)
	if given, ok := query["limit"]; ok {
		if len(given) != 1 || !limitForm.MatchString(given[0]) {
			return invalid("limit must be a whole number from 1 to 100")
		}
		limit, _ = strconv.Atoi(given[0])
	}
	status, isFiltered := query["status"]
	if isFiltered && (len(status) != 1 || !statuses[status[0]]) {
		return invalid("status must be one of available, pending, sold")
	}
	if given, ok := query["cursor"]; ok {
		id, isCursor := idBefore(given[0])
		if len(given) != 1 || !isCursor {
			return invalid("cursor must be one that this service issued")
		}
		start = id + 1
	}
	var rows pgx.Rows
	if isFiltered {
		rows, err = s.database.Query(r.Context(), byStatus, status[0], start, limit+1)
	} else {
		rows, err = s.database.Query(r.Context(), byID, start, limit+1)
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	body := make([]byte, 1, 2048)
	body[0] = '['
	var last int64
	count := 0
	for ; rows.Next(); count++ {
		if count == limit {
			link := "</v1/pets?limit=" + strconv.Itoa(limit)
			if isFiltered {
				link += "&status=" + status[0]
			}
			w.Header().Set("Link", link+"&cursor="+cursorAfter(last)+`>; rel="next"`)
			break
		}
		var p pet
		if err := rows.Scan(&p.id, &p.name, &p.categoryID, &p.status); err != nil {
			return err
		}
		if count > 0 {
			body = append(body, ',')
		}
		body, last = appendPet(body, p), p.id
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return err
	}
	c.send(w, 200, append(body, ']'))
	return nil
}

func (s *server) get(w http.ResponseWriter, r *http.Request, c *call, petID string) error {
	w.Header().Set("Deprecation", "@1795046400")
	w.Header().Set("Sunset", "Thu, 05 Dec 2030 00:00:00 GMT")
	w.Header().Set("Link", `</v1/pets>; rel="successor-version", </docs/guides/deprecation>; rel="deprecation"; type="text/html"`)
	noSuchPet := &fault{status: 404, code: "pet_not_found", message: "No such pet."}
	id, err := strconv.ParseInt(petID, 10, 64)
	if err != nil || !idForm.MatchString(petID) {
		return noSuchPet
	}
	var p pet
	err = s.database.QueryRow(r.Context(), oneByID, id).Scan(&p.id, &p.name, &p.categoryID, &p.status)
	if errors.Is(err, pgx.ErrNoRows) {
		return noSuchPet
	} else if err != nil {
		return err
	}
	c.send(w, 200, appendPet(make([]byte, 0, 128), p))
	return nil
}

func (s *server) create(w http.ResponseWriter, r *http.Request, c *call) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		return &fault{status: 413, code: "payload_too_large", message: "The body is over 16384 bytes."}
	}
	body := struct {
		Name       *string         `json:"name"`
		CategoryID json.RawMessage `json:"categoryId"`
		Status     *string         `json:"status"`
	}{}
	if err := json.Unmarshal(text, &body); err != nil {
		return &fault{status: 400, code: "invalid_json", message: "The body is not JSON."}
	}
	p := pet{status: "available"}
	if body.Name == nil || utf8.RuneCountInString(*body.Name) > 255 || strings.TrimSpace(*body.Name) == "" {
		return invalid("name must be a string of 1 to 255 characters")
	}
	p.name = *body.Name
	category, ok := int64FromJSON(string(body.CategoryID))
	if !ok {
		return invalid("categoryId must be an int64")
	}
	p.categoryID = category
	if body.Status != nil {
		p.status = *body.Status
	}
	if !statuses[p.status] {
		return invalid("status must be one of available, pending, sold")
	}
	if err := s.database.QueryRow(r.Context(), insert, p.name, p.categoryID, p.status).Scan(&p.id); err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/pets/"+strconv.FormatInt(p.id, 10))
	c.send(w, 201, appendPet(make([]byte, 0, 128), p))
	return nil
}

// int64FromJSON returns the exact value of a JSON number: 3.0 and 1e2 are 3 and 100.
func int64FromJSON(text string) (int64, bool) {
	if value, err := strconv.ParseInt(text, 10, 64); err == nil {
		return value, true
	}
	if text == "" || len(text) > 40 || !strings.ContainsAny(text[:1], "-0123456789") {
		return 0, false
	}
	value, ok := new(big.Rat).SetString(text)
	if !ok || !value.IsInt() || !value.Num().IsInt64() {
		return 0, false
	}
	return value.Num().Int64(), true
}

func (c *call) send(w http.ResponseWriter, status int, body []byte) {
	c.status = status
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}

func appendPet(to []byte, p pet) []byte {
	to = strconv.AppendInt(append(to, `{"id":`...), p.id, 10)
	to = appendString(append(to, `,"name":`...), p.name)
	to = strconv.AppendInt(append(to, `,"categoryId":`...), p.categoryID, 10)
	return append(append(append(to, `,"status":"`...), p.status...), `"}`...)
}

func appendString(to []byte, text string) []byte {
	to = append(to, '"')
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"' || b == '\\':
			to = append(to, '\\', b)
		case b >= ' ':
			to = append(to, b)
		case b == '\n':
			to = append(to, `\n`...)
		case b == '\r':
			to = append(to, `\r`...)
		case b == '\t':
			to = append(to, `\t`...)
		case b == '\b':
			to = append(to, `\b`...)
		case b == '\f':
			to = append(to, `\f`...)
		default:
			to = append(to, '\\', 'u', '0', '0', '0'+b>>4, "0123456789abcdef"[b&15])
		}
	}
	return append(to, '"')
}

// A cursor is an id of 8 bytes and a CRC-32 of "pets" and these bytes, in base64url.
func cursorAfter(id int64) string {
	var bytes [12]byte
	binary.BigEndian.PutUint64(bytes[:8], uint64(id))
	sum := crc32.Update(crc32.ChecksumIEEE([]byte("pets")), crc32.IEEETable, bytes[:8])
	binary.BigEndian.PutUint32(bytes[8:], sum)
	return base64.RawURLEncoding.EncodeToString(bytes[:])
}

func idBefore(cursor string) (int64, bool) {
	bytes, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(bytes) != 12 {
		return 0, false
	}
	id := int64(binary.BigEndian.Uint64(bytes))
	return id, id < math.MaxInt64 && cursorAfter(id) == cursor
}

type rememberedKey struct {
	id    string
	until time.Time
}

type keyCache struct {
	sync.RWMutex
	remembered map[[32]byte]rememberedKey
}

// authenticate returns the id of the request's API key. A key is looked up by its SHA-256 and remembered for 4 seconds.
func (s *server) authenticate(r *http.Request) (string, error) {
	given := r.Header["Authorization"]
	if len(given) == 0 || given[0] == "" {
		return "", &fault{401, "missing_api_key", "An API key is required: send Authorization: Bearer <key>.", realm}
	}
	notValid := &fault{401, "invalid_api_key", "The API key is not valid.", realm + `, error="invalid_token"`}
	match := bearerForm.FindStringSubmatch(given[0])
	if match == nil || len(given) > 1 {
		return "", notValid
	}
	digest, now := sha256.Sum256([]byte(match[1])), time.Now()
	s.keys.RLock()
	known, ok := s.keys.remembered[digest]
	s.keys.RUnlock()
	if ok && known.until.After(now) {
		return known.id, nil
	}
	var id int64
	var expiresAt *time.Time
	err := s.database.QueryRow(r.Context(), keyByHash, digest[:]).Scan(&id, &expiresAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", notValid
	} else if err != nil {
		return "", err
	}
	until := now.Add(trustedFor)
	if expiresAt != nil && expiresAt.Before(until) {
		until = *expiresAt
	}
	if !until.After(now) {
		return "", notValid
	}
	known = rememberedKey{strconv.FormatInt(id, 10), until}
	s.keys.Lock()
	s.keys.remembered[digest] = known
	s.keys.Unlock()
	return known.id, nil
}

// lines writes one JSON line a request, gathered as the service gathers its own.
type lines struct {
	sync.Mutex
	out *bufio.Writer
}

func (l *lines) write(method string, c *call, duration time.Duration) {
	var request [16]byte
	rand.Read(request[:])
	line := make([]byte, 0, 256)
	line = append(line, `{"level":"info","time":"`...)
	line = time.Now().UTC().AppendFormat(line, "2006-01-02T15:04:05.000Z")
	line = append(append(line, `","request":"`...), hex.EncodeToString(request[:])...)
	line = append(append(line, `","method":"`...), method...)
	line = append(append(line, `","route":"`...), c.route...)
	line = strconv.AppendInt(append(line, `","status":`...), int64(c.status), 10)
	line = strconv.AppendFloat(append(line, `,"ms":`...), float64(duration.Microseconds())/1000, 'f', 3, 64)
	line = append(append(line, `,"key":"`...), c.key...)
	line = append(line, "\",\"msg\":\"request\"}\n"...)
	l.Lock()
	l.out.Write(line)
	l.Unlock()
}

func (l *lines) flushEverySecond() {
	for range time.Tick(time.Second) {
		l.Lock()
		l.out.Flush()
		l.Unlock()
	}
}
