# frozen_string_literal: true

# A dashboard as a plugin of Open OnDemand meets it, on Debian's Rails: `ruby FILE PLUGIN ASSETS` serves it
# on a free port and prints the port. Open OnDemand itself is not here. As it does: the plugin's lib is
# autoloaded and its views come first, the dashboard stands below a path, a widget is rendered within it
# and, at /widgets/NAME, alone. At /unpatched a dashboard renders no widget alone.

require 'action_controller/railtie'
require 'rack/handler/webrick'

PLUGIN, ASSETS = ARGV.map { |path| File.expand_path(path) }
BELOW = '/pun/sys/dashboard'
PAGE = <<~'ERB'
  <!doctype html>
  <html lang="en" data-bs-theme="<%= params[:theme] == 'dark' ? 'dark' : 'light' %>">
  <head>
    <title>Dashboard</title><meta name="viewport" content="width=device-width, initial-scale=1">
    <%= csp_meta_tag %><%# for the style of Turbo's own %>
    <link rel="icon" href="data:,"><link rel="stylesheet" href="/assets/bootstrap.min.css">
    <script src="/assets/turbo.es2017-umd.js"></script>
  </head>
  <body><main class="container-md mt-4">
    <h2>Dashboard</h2>
    <div class="row"><div class="col-md-8"><%= render partial: 'widgets/mirage_chains' %></div></div>
  </main></body>
  </html>
ERB

# What is needed of Open OnDemand's application.
class Dashboard < Rails::Application
  config.load_defaults Rails::VERSION::STRING.to_f
  config.root = File.dirname(ASSETS)
  config.secret_key_base = 'x' * 64
  config.eager_load = false
  config.logger = Logger.new($stderr)
  config.log_level = :warn
  config.content_security_policy_nonce_generator = ->(_request) { SecureRandom.hex }
  config.autoload_paths << "#{PLUGIN}/lib"
  config.paths['app/views'].unshift("#{PLUGIN}/views")
end
Dashboard.initialize! # first: controllers that are older have no paths of routes in their views

class DashboardController < ActionController::Base
  content_security_policy do |policy|
    policy.default_src :self
    policy.img_src :self, :data
    policy.style_src :self
  end

  def index
    render inline: PAGE
  end
end

class WidgetsController < ActionController::Base
  def show
    render partial: "/widgets/#{params[:widget_path]}", layout: false
  end
end

# A dashboard without the route: its views have no widgets_path.
class UnpatchedController < DashboardController
  helper do
    def respond_to?(name, *)
      name != :widgets_path && super
    end
  end
end

Dashboard.routes.draw do
  root 'dashboard#index'
  get '/unpatched', to: 'unpatched#index'
  match '/widgets/*widget_path', to: 'widgets#show', via: %i[get post], as: 'widgets'
end

app = Rack::Builder.new do
  map('/assets') { run Rack::Files.new(ASSETS) }
  map(BELOW) { run Dashboard }
end
Rack::Handler::WEBrick.run(app, Host: '127.0.0.1', Port: 0, AccessLog: [], Logger: WEBrick::Log.new($stderr, 2)) do |server|
  puts server.listeners.first.addr[1]
  $stdout.flush
end
