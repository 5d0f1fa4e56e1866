# Everything a fresh machine needs is made here: a Python 3.11+ with venv is all that is assumed.
# A distribution's own Python is compiled with profiles: all starts and runs in three quarters of the time that one of pyenv takes.
ifndef PYTHON
PYTHON := $(shell /usr/bin/python3 -c 'import ensurepip, sys; print(sys.executable if sys.version_info >= (3, 11) else "python3")' 2>/dev/null || echo python3)
endif
export PYTHON
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-dev
SERVE_STAMP := $(VENV)/.installed
CHECK_STAMP := $(VENV)/.installed-check
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
# requirements/ is complete: pip adds nothing to it, and refuses what has another hash.
PINNED := $(PIP) --require-hashes --no-deps

SHELL := /bin/bash
# Containers often set it. Tests start hundreds of processes, and each would compile everything.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-first style hooks requirements release compiled kernels test-simulated test-newcomer on-slurm test-slurm test-chains test-plugin \
	test-slurm-24.11 test-slurm-26.05 tried root-trixie root-sid test-deb deb rpm image lint-ansible check docs man clean

demo: $(SERVE_STAMP)  ## run the service on a simulated cluster and show what each policy saves
	$(BIN)/mirage demo --once

# What runs on the real Slurm keeps time with its clock, 60 times as fast as ours, and leaves the
# machine idle while it waits: everything else runs in that idle time, and in it only.
IDLE := $(shell chrt --idle 0 true 2>/dev/null && echo chrt --idle 0 || echo nice -n 19)
PYTEST := $(BIN)/python -m pytest -q --durations=10
FIRST := tests/integration/lab/episodes/test_builder.py
TIMED = TIMEFORMAT="part $@: %0R s, its processes used the CPU for %0U + %0S s"; time
# Slurms beside each other, each in a private copy of this host, or of another Debian release.
APART := deploy/testbed/apart.sh
# What each leaves is recorded by `make tried`.
RESULTS = build/$@.xml
# Rooms of the first tier in which nothing is compiled and no test asks PostgreSQL: test-newcomer alone runs them.
PLAIN := $(addprefix tests/unit/,benchmarks chains cli domain project slurm slurm_plugin)
OF_SLURM = -m pytest -q --durations=10 -p tests.part_times -m slurm --junit-xml=$(RESULTS)
# What a release of Slurm may change for Mirage: asked of each that sites run. First what is in real time, then what keeps
# time with the cluster's clock.
ONE_REGIME := test_mirage_costs_less_than_the_same_chains_left_reactive[x60-age-quantile-14]
A := tests/acceptance
RELEASE_TESTS ?= $A/cluster/test_contract.py $A/cluster/test_odd_requests_real.py $A/cluster/test_one_owner_real.py \
	$A/slurm_plugin/test_conformance.py $A/slurm_plugin/test_conformance_run.py \
	$A/slurm_plugin/test_hooks.py $A/slurm_plugin/test_options_real.py $A/slurm_plugin/test_return_real.py $A/identity '$A/handover/test_early_release.py::$(ONE_REGIME)' \
	$A/handover/test_survival.py $A/handover/test_pinned.py $A/handover/test_submit_mode.py \
	$A/handover/test_plan_real.py $A/handover/test_return_by_costs.py '$A/fidelity/test_fidelity.py::test_plans_are_those_of_squeue_start[age]'
# Nobody but root makes roots of other Debian releases; where nothing may be left out, that is a failure.
ROOTS := $(shell if [ "$$CI" = true ] || [ "$$(id -u)" -eq 0 ]; then echo root-trixie; fi)
# The parts of on-slurm find these there: make begins a part that waits for something after all others.
KERNELS ?= kernels
ROOT_TRIXIE ?= root-trixie

test:  ## all checks and tests; as root on Debian the real Slurm, PostgreSQL too
	$(MAKE) --jobs=3 $(STAMP) compiled $(ROOTS)
	$(BIN)/python -m tests.needed
	$(MAKE) --jobs=7 --output-sync=target check test-simulated on-slurm test-deb test-newcomer

# What the service compiles takes longer than pip, and a root waits for the network: all run meanwhile.
compiled: $(SERVE_STAMP)
	$(BIN)/python -m mirage.service.kernel_warmup

# One file first, by itself: it compiles all other kernels, which several processes would do each.
kernels: $(STAMP)
	$(PYTEST) $(FIRST)

test-simulated: kernels  ## what needs no Slurm: of the first tier what compiles or asks a database, now compiled and on PostgreSQL too; the second
	$(TIMED) $(IDLE) env NUMBA_DISABLE_JIT=0 $(PYTEST) -m "not slurm and not deb" --ignore=$(FIRST) $(PLAIN:%=--ignore=%) --numprocesses=3 \
		--dist=worksteal tests

test-newcomer:  ## the first tier alone, as a stranger runs it: a new environment, an ordinary user, a plain pytest
	$(TIMED) $(IDLE) tests/newcomer.sh --numprocesses=2

# Two real Slurms at a time, what takes longest first: with a third beside them, the clocks are late so often that tests
# need a second try.
on-slurm: kernels $(ROOTS)
	$(MAKE) KERNELS= ROOT_TRIXIE= --jobs=2 --keep-going test-chains $(ROOTS:root-trixie=test-slurm-24.11) test-plugin test-slurm

test-slurm: $(KERNELS)  ## the service's hands and the simulator against the real Slurm
	$(TIMED) $(APART) $(BIN)/python $(OF_SLURM) $A --ignore=$A/handover --ignore=$A/slurm_plugin

test-chains: $(KERNELS)  ## whole chains, and what they win
	$(TIMED) $(APART) $(BIN)/python $(OF_SLURM) $A/handover

test-plugin: $(STAMP)  ## what users touch
	$(TIMED) $(APART) $(BIN)/python $(OF_SLURM) $A/slurm_plugin

# One scene there asks the simulator, and kernels of another Python would be compiled for minutes: it runs as plain Python.
test-slurm-24.11: $(ROOT_TRIXIE)  ## RELEASE_TESTS on Debian 13's Slurm, in a root of its own
	$(TIMED) $(APART) --root trixie env NUMBA_DISABLE_JIT=1 python $(OF_SLURM) $(RELEASE_TESTS)

test-slurm-26.05: root-sid  ## the same on Debian sid's, which moves: before a release
	$(TIMED) $(APART) --root sid env NUMBA_DISABLE_JIT=1 python $(OF_SLURM) $(RELEASE_TESTS)

# After the tests, whose results lie in build: which releases README.md and docs/admin/install.md name, and how their tests ended.
tried:  ## the table of releases, from the last make test and make test-slurm-26.05
	$(APART) $(BIN)/python -m tests.tried record build/test-plugin.xml build/test-slurm.xml build/test-chains.xml
	$(APART) --root trixie python -m tests.tried record build/test-slurm-24.11.xml
	$(APART) --root sid python -m tests.tried record build/test-slurm-26.05.xml
	$(BIN)/python -m tests.tried

# Three minutes the first time; kept in the user's cache (deploy/testbed/README.md).
root-trixie root-sid: root-%:
	$(TIMED) python3 deploy/testbed/testbed.py root $*

test-deb: $(STAMP) $(ROOTS)  ## the Debian packages: built, installed on a root of each release, upgraded, purged
	$(TIMED) $(IDLE) $(PYTEST) -m deb $A/deploy

# What is in them comes as wheels of the release's own Python.
deb: $(SERVE_STAMP)  ## the Debian packages, into dist/; RELEASE=ubuntu24.04: for another release (deploy/deb/build.py names all)
	$(BIN)/python deploy/deb/build.py $(RELEASE:%=--release %)

rpm: $(SERVE_STAMP)  ## the RPM packages for EL 8, 9 and 10, into dist/; needs rpmbuild
	$(BIN)/python deploy/rpm/build_rpm.py

# STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot where the kernel allows no overlay and no namespaces.
image:  ## the service's image, by buildah, without a registry; OPTIONS='--build-arg PACKAGES=' leaves Slurm's commands out
	deploy/container/image.sh $(OPTIONS)

release: $(SERVE_STAMP)  ## VERSION=0.2.0: its commit, its tag and, in dist/, its packages; DRY_RUN=1 only says what it would do
	$(BIN)/python deploy/release.py $(or $(VERSION),$(error which version? make release VERSION=0.2.0)) $(if $(DRY_RUN),--dry-run)

# In an environment of its own: it brings all of Ansible.
lint-ansible:  ## the Ansible role, by Ansible's own linter
	$(PYTHON) -m venv build/ansible
	build/ansible/bin/pip install --quiet --disable-pip-version-check ansible-lint
	cd deploy/ansible && PATH=$(CURDIR)/build/ansible/bin:$$PATH ansible-lint --offline

check: style  ## the style, and which module may import which
	$(BIN)/lint-imports

style: $(CHECK_STAMP)  ## lint and format, the plugin's shell, Lua and C, spelling, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.static
	$(IDLE) $(BIN)/mypy

test-first: $(CHECK_STAMP)  ## the first tier of tests alone: no root, no Slurm, no compilation
	$(BIN)/python -m pytest -q

hooks: $(CHECK_STAMP)  ## git checks each commit by .pre-commit-config.yaml from now on
	$(BIN)/pre-commit install

# What serves, with the extras postgres and jwt, and what builds Mirage: no torch, nothing of the tests. slurm_plugin comes last:
# as pip replaces a mirage-provisioner that brought the program `mirage` itself, it takes the program away.
$(SERVE_STAMP): pyproject.toml slurm_plugin/pyproject.toml slurm_plugin/mirage_slurm/command/version.py requirements/serve.txt
	$(PYTHON) -m venv $(VENV)
	$(PINNED) -r requirements/serve.txt
	$(PIP) --no-deps --no-build-isolation -e .
	$(PIP) --no-deps --no-build-isolation -e slurm_plugin
	touch $@

# A pull request is checked in a minute: no torch, no training.
$(CHECK_STAMP): $(SERVE_STAMP) requirements/check.txt
	$(PINNED) -r requirements/check.txt
	touch $@

# torch last: all that it needs is there by then, in the version that is pinned.
$(STAMP): $(SERVE_STAMP) requirements/dev.txt requirements/torch.txt
	$(PINNED) -r requirements/dev.txt
	$(PIP) -r requirements/torch.txt
	touch $(CHECK_STAMP) $@

# The newest releases that pyproject.toml admits. dev.txt first: the others are parts of it.
UV := build/uv/bin/uv --quiet --config-file requirements/uv.toml pip compile --upgrade --group build
SERVING := --extra postgres --extra jwt
requirements:  ## requirements/ anew: exact versions and hashes of what pyproject.toml names
	$(PYTHON) -m venv build/uv
	build/uv/bin/pip install --quiet --disable-pip-version-check uv
	$(UV) --extra dev --constraints requirements/torch.txt pyproject.toml -o requirements/dev.txt
	$(UV) $(SERVING) --constraints requirements/dev.txt pyproject.toml -o requirements/serve.txt
	$(UV) $(SERVING) --extra trees --constraints requirements/dev.txt pyproject.toml -o requirements/learn.txt
	$(UV) $(SERVING) --extra test --constraints requirements/dev.txt pyproject.toml -o requirements/test.txt
	$(UV) --extra check --constraints requirements/dev.txt pyproject.toml -o requirements/check.txt

docs: $(STAMP)  ## the pages as a static site, into build/docs; a broken link is an error
	$(BIN)/python -m sphinx -q -W --keep-going -c docs -b html . build/docs

man: $(SERVE_STAMP)  ## the manual pages, into build/man
	$(BIN)/mirage man build/man

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
