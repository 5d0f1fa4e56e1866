# Everything a fresh machine needs is made here: a Python 3.11+ with venv is all that is assumed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-dev
SERVE_STAMP := $(VENV)/.installed
DEB_STAMP := $(VENV)/.installed-deb

# Containers often set it. Tests start hundreds of processes, and each would compile everything.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test compiled kernels test-simulated test-slurm test-chains test-plugin test-deb deb lint-ansible check docs generated man clean

demo: $(SERVE_STAMP)  ## run the service on a simulated cluster and show what each policy saves
	$(BIN)/mirage demo --once

# What runs on the real Slurm keeps time with its clock, 60 times as fast as ours, and leaves the
# machine idle while it waits: everything else runs in that idle time, and in it only.
IDLE := $(shell chrt --idle 0 true 2>/dev/null && echo chrt --idle 0 || echo nice -n 19)
PYTEST := $(BIN)/python -m pytest -q --durations=10
FIRST := tests/learn/test_live.py
APART := deploy/testbed/apart.sh  # Slurms beside each other, each in a private copy of this host

test:  ## all checks and tests; as root on Debian the real Slurm, PostgreSQL too
	$(MAKE) --jobs=2 $(STAMP) compiled
	$(BIN)/python -m tests.needed
	$(MAKE) --jobs=6 --output-sync=target check test-simulated test-slurm test-chains test-deb

# What the service compiles takes longer than pip, which runs meanwhile.
compiled: $(SERVE_STAMP)
	$(BIN)/python -m mirage.services.compiling

# One file first, by itself: it compiles all other kernels, which several processes would do each.
kernels: $(STAMP)
	$(PYTEST) $(FIRST)

test-simulated: kernels  ## what needs no Slurm
	$(IDLE) $(PYTEST) -m "not slurm and not deb" --ignore=$(FIRST) --numprocesses=3 --dist=worksteal

# What waits for the real Slurm, as two that take about as long: a third beside them, and its clock
# is late so often that tests need a second try.
test-slurm: kernels  ## the service's hands and the simulator against the real Slurm, and what users touch
	plugin=0; $(MAKE) test-plugin || plugin=$$?; \
	$(APART) $(PYTEST) -m slurm --ignore=tests/handover --ignore=tests/slurm_plugin && exit $$plugin

test-chains: kernels  ## whole chains, and what they win
	$(APART) $(PYTEST) -m slurm tests/handover

test-plugin: $(STAMP)  ## what users touch
	$(APART) $(PYTEST) -m slurm tests/slurm_plugin

test-deb: $(STAMP)  ## the Debian package: built, installed on a root of its own, upgraded, purged
	$(IDLE) $(PYTEST) -m deb tests/deploy

# Without what tests need, torch above all: minutes and gigabytes less on a fresh checkout.
deb: $(DEB_STAMP)  ## the Debian package, into dist/
	$(BIN)/python deploy/deb/build.py

# In an environment of its own: it brings all of Ansible.
lint-ansible:  ## the Ansible role, by Ansible's own linter
	$(PYTHON) -m venv build/ansible
	build/ansible/bin/pip install --quiet --disable-pip-version-check ansible-lint
	cd deploy/ansible && PATH=$(CURDIR)/build/ansible/bin:$$PATH ansible-lint --offline

check: $(STAMP)  ## lint, format, security of what is shipped, shell, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.static
	$(IDLE) $(BIN)/mypy
	$(BIN)/lint-imports

$(SERVE_STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(DEB_STAMP): $(SERVE_STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[postgres,jwt]' 'hatchling>=1.27'
	touch $@

# torch first, by itself: what depends on it would otherwise bring gigabytes of CUDA.
$(STAMP): $(SERVE_STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

# What is committed and made from the code: a test fails where it is not up to date.
generated: $(STAMP)
	$(BIN)/python -m mirage.cli.tree

docs: $(STAMP)  ## the pages as a static site, into build/docs; a broken link is an error
	$(BIN)/python -m sphinx -q -W --keep-going -c docs -b html . build/docs

man: $(SERVE_STAMP)  ## the manual pages, into build/man
	$(BIN)/mirage man build/man

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
