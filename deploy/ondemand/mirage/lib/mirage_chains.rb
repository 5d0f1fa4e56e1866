# frozen_string_literal: true

require 'etc'
require 'json'
require 'net/http'
require 'socket'
require 'time'
require 'timeout'
require 'uri'

# The live chains of the user who runs this process, as Mirage's service describes them. Open
# OnDemand's dashboard runs as that user, so the service's unix socket needs no secret: the kernel
# names the caller. Standard library alone; Ruby 2.7 and later.
module MirageChains
  DEFAULT_URL = 'unix:///run/mirage/api.sock'
  CONFIGURATION = '/etc/mirage/client.conf' # lines NAME = VALUE, which all clients of Mirage read
  ACCOUNT = 'mirage' # of the service, if the configuration names no other
  LIMIT_S = 5.0 # for everything that one card asks; MIRAGE_CARD_LIMIT_S in the environment overrides it
  LIMIT_BYTES = 1 << 20 # of all answers together
  LIMIT_CHAINS = 10
  ASK_ADMIN = 'Ask the admins of this host'
  USE_COMMAND = 'mirage chain list --me'

  # A sentence for the card: what is wrong, and what to do.
  class Problem < StandardError; end

  # `problem` is a sentence, or nil; `rows` are the first of `live` chains.
  Card = Struct.new(:problem, :rows, :live, :age, :is_stale, keyword_init: true)
  # `sentences` have a label each; a sentence may be nil or empty.
  Row = Struct.new(:id, :state, :progress, :sentences, keyword_init: true)

  # A socket that reads no more than LIMIT_BYTES in all.
  module Bounded
    def read_nonblock(*, **)
      super.tap do |piece|
        @left = (@left || LIMIT_BYTES) - piece.bytesize if piece.is_a?(String)
        raise Problem, "Mirage's service sends more than #{LIMIT_BYTES >> 20} MiB." if @left&.negative?
      end
    end
  end

  # Asks the service that listens at the other end of a socket.
  class Service
    def initialize(socket)
      @http = Net::HTTP.new('mirage', nil, nil) # the last nil: no proxy that the environment names
      @http.max_retries = 0
      @http.define_singleton_method(:connect) { @socket = Net::BufferedIO.new(socket.extend(Bounded)) }
      @http.start
    end

    # Returns the object of a JSON answer.
    def get(path)
      answer = @http.request(Net::HTTP::Get.new("/api/v1#{path}", 'Accept-Encoding' => 'identity'))
      body = answer.body.to_s.force_encoding(Encoding::UTF_8).scrub
      kind = answer.content_type
      return JSON.parse(body) if answer.code == '200' && kind == 'application/json'
      raise Problem, "Mirage refuses: #{JSON.parse(body).fetch('detail')}" if kind == 'application/problem+json'

      raise Problem, "Mirage's service is not what answers at its socket: the answer is #{answer.code} " \
                     "#{kind || 'without a type'}. #{ASK_ADMIN} to look at mirage.service."
    end
  end

  class << self
    # Returns a Card, and raises nothing: the dashboard has no other place for an error.
    def read(environ = ENV)
      path = find_path(environ)
      limit_s = environ['MIRAGE_CARD_LIMIT_S'].to_f
      limit_s = LIMIT_S unless limit_s.positive?
      Timeout.timeout(limit_s) do
        open_socket(path, environ) { |socket| build_card(Service.new(socket)) }
      end
    rescue StandardError => e
      Card.new(problem: explain(e, path, limit_s), rows: [])
    end

    private

    def find_path(environ)
      url = environ['MIRAGE_URL'].to_s
      url = read_setting('url', environ) || DEFAULT_URL if url.empty?
      return url.delete_prefix('unix://') if url.start_with?('unix:///')

      raise Problem, "Mirage's service is at #{url}, and this card can ask a service of this host alone. " \
                     "There is a command: #{USE_COMMAND}."
    end

    def read_setting(name, environ)
      File.foreach(environ['MIRAGE_CLIENT_CONF'] || CONFIGURATION) do |line|
        key, value = line.scrub.split('=', 2)
        return value.strip.delete(%('")) if value && key.strip == name
      end
      nil
    rescue SystemCallError
      nil
    end

    # Who answers is looked at once the connection stands. Nothing secret is sent, and the answer is
    # only shown, so the directories above the socket do not matter here as they do to other clients.
    def open_socket(path, environ)
      UNIXSocket.open(path) do |socket|
        account = find_uid(read_setting('account', environ) || ACCOUNT)
        strangers = [File.stat(path).uid, socket.getpeereid.first] - [0, Process.euid, account]
        return yield socket if strangers.empty?

        raise Problem, "#{path} belongs to the user with uid #{strangers.first}, who is neither root nor the " \
                       "account of Mirage's service. #{ASK_ADMIN} about that user; the service's own account " \
                       "is named by account = NAME in #{CONFIGURATION}."
      end
    end

    def find_uid(account)
      account.match?(/\A\d+\z/) ? account.to_i : Etc.getpwnam(account).uid
    rescue ArgumentError
      nil # this host has no such account
    end

    def explain(error, path, limit_s)
      case error
      when Problem then error.message
      when Timeout::Error
        "Mirage's service has not answered within #{limit_s.round} s. Reload this page in a minute."
      when Errno::ENOENT
        "No service of Mirage runs on this host: there is no #{path}. #{ASK_ADMIN} to start mirage.service. " \
        "If the service is on another host: #{USE_COMMAND}."
      when SystemCallError, IOError
        "Mirage's service does not answer (#{error.message[0, 200]}). #{ASK_ADMIN} to look at mirage.service."
      else
        "This card does not understand the answer of Mirage's service (#{error.message[0, 200]}). #{ASK_ADMIN} " \
        'to install mirage and mirage-ondemand of the same version.'
      end
    end

    def build_card(service)
      query = URI.encode_www_form(user: Etc.getpwuid(Process.euid).name, limit: LIMIT_CHAINS)
      overview = service.get("/overview?#{query}")
      as_of = overview.fetch('as_of')
      Card.new(
        rows: overview.fetch('items').first(LIMIT_CHAINS).map { |item| build_row(item, service) },
        live: Integer(overview.fetch('live')),
        age: as_of ? "Mirage read the queue on #{format_instant(as_of)}; times are in #{Time.now.zone}." : 'Mirage has not read the queue yet.',
        is_stale: overview.fetch('stale')
      )
    end

    def build_row(item, service)
      chain = item.fetch('chain')
      upcoming = item.fetch('next')
      risk = chain.fetch('at_risk')
      Row.new(
        id: chain.fetch('chain_id'),
        state: risk ? 'at risk' : chain.fetch('state'),
        progress: describe_progress(chain),
        sentences: {
          risk ? 'At risk' : 'Why' => risk ? "#{risk.fetch('says')}. #{risk.fetch('advice')}" : chain.fetch('note'),
          'Next' => upcoming && describe_start(chain, upcoming, service),
          'Mirage' => upcoming && describe_move(upcoming.fetch('decision'))
        }
      )
    end

    def describe_progress(chain)
      jobs = chain.fetch('running')
      running = jobs.empty? ? 'no job runs' : "running: job #{jobs.join(', ')}"
      links = "#{chain.fetch('links_started')} of #{chain.fetch('links_planned') || '?'} links have started, #{running}"
      handovers = Integer(chain.fetch('handovers_done'))
      return "#{links}." if handovers.zero?

      format('%<links>s. Hand-overs so far: %<handovers>d, with %<gap>.1f h of interruption and %<overlap>.1f h of overlap.',
             links: links, handovers: handovers, gap: chain.fetch('interruption_h'), overlap: chain.fetch('overlap_h'))
    end

    def describe_start(chain, upcoming, service)
      start = service.get("/chains/#{URI.encode_www_form_component(chain.fetch('chain_id'))}").fetch('expected_start')
      return "nothing foretells the start of link #{upcoming.fetch('link')}." unless start

      at, earliest, latest = %w[at earliest latest].map { |name| format_instant(start.fetch(name)) }
      spread = earliest == latest ? '' : " (8 of 10 times between #{earliest} and #{latest})"
      "link #{start.fetch('link')} is expected to start on #{at}#{spread}."
    end

    def describe_move(decision)
      return 'no decision yet.' unless decision

      "policy #{decision.fetch('policy')} #{decision.fetch('says')}: #{decision.fetch('reason')}."
    end

    def format_instant(text)
      Time.iso8601(text).localtime.strftime('%-d %B at %H:%M')
    end
  end
end
